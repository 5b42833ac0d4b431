package tailrace.files

import java.io.{FilterInputStream, FilterOutputStream, InputStream, IOException, OutputStream}

import org.apache.hadoop.fs.FSError

/**
 * Problem: Hadoop's local file system reports a disk that is full or broken with a
 * `java.lang.Error`. It passes everything that expects an IOException: it is not retried, does not
 * name the file, and ends the thread.
 *
 * Answer: where files are read and written it becomes the IOException that it was to begin with.
 */
object DiskErrors {
  def asIOException[T](body: => T): T = named("")(body)

  private def named[T](file: String)(body: => T): T = try body catch {
    case error: FSError =>
      val cause = Option(error.getCause).getOrElse(error)
      throw new IOException(file + Option(cause.getMessage).getOrElse(cause.toString), error)
  }

  def reading(stream: InputStream): InputStream = new FilterInputStream(stream) {
    override def read(): Int = asIOException(in.read())

    override def read(bytes: Array[Byte], offset: Int, count: Int): Int =
      asIOException(in.read(bytes, offset, count))

    override def skip(count: Long): Long = asIOException(in.skip(count))

    override def close(): Unit = asIOException(in.close())
  }

  /** @param file its name, for the error: Spark writes files of its own through this, too */
  def writing(stream: OutputStream, file: String): OutputStream = new FilterOutputStream(stream) {
    private val prefix = s"$file could not be written: "

    override def write(byte: Int): Unit = named(prefix)(out.write(byte))

    override def write(bytes: Array[Byte], offset: Int, count: Int): Unit =
      named(prefix)(out.write(bytes, offset, count))

    override def flush(): Unit = named(prefix)(out.flush())

    // Not FilterOutputStream's, which would flush first, again after a failure.
    override def close(): Unit = named(prefix)(out.close())
  }
}
