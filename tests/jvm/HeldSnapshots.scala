/*
 * Problem: a snapshot that waits for its turn, or hangs on a checkpoint that does not answer, must
 * be seen by the table that it is of.
 * Answer: the real writer, over a folder that keeps files in memory and, if told so, does not answer.
 * Invariant: after `letGo` nothing is held.
 */
package org.apache.spark.sql.tailrace.testing

import java.io.{ByteArrayOutputStream, FilterOutputStream, InputStream, OutputStream}
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch}

import scala.jdk.CollectionConverters._

import tailrace.commit.SnapshotWriter
import tailrace.files.{FileNames, StateFolder}
import tailrace.format.Codec
import tailrace.io.{IoKind, IoScheduler}
import tailrace.store.FrozenVersion

private[testing] final class HeldSnapshots(io: IoScheduler) {
  private val free = new CountDownLatch(1)
  private val outcomes = new ConcurrentLinkedQueue[String]
  private val files = new ConcurrentLinkedQueue[String]
  @volatile private var hangs = false

  private val folder = new StateFolder {
    override def path: String = "a folder"
    override def list(): Seq[StateFolder.Entry] = Nil
    override def open(name: String): InputStream = throw new UnsupportedOperationException
    override def delete(name: String): Unit = {}
    override def make(): Unit = {}
    override def write(name: String)(body: OutputStream => Unit): Long = {
      val stream = new ByteArrayOutputStream
      body(new FilterOutputStream(stream) {
        override def write(bytes: Array[Byte], start: Int, length: Int): Unit = {
          if (hangs) free.await()
          out.write(bytes, start, length)
        }
      })
      files.add(name)
      stream.size.toLong
    }
  }

  /** The snapshot of another store, on a checkpoint that does not answer. */
  def occupy(): Unit = io.submit(IoKind.Snapshot, "another snapshot")(_ => free.await())

  def submit(frozen: FrozenVersion, hanging: Boolean): Unit = {
    hangs = hanging
    val writer = new SnapshotWriter(folder, new FileNames(true), Codec.None, "a store", io)
    writer.submit(frozen)(_ => outcomes.add("written")) {
      case cancelled: FrozenVersion.Cancelled =>
        outcomes.add(if (cancelled.forMemory) "put off" else "cancelled")
      case error => outcomes.add(error.toString)
    } {}
  }

  def letGo(): Unit = free.countDown()

  /** How every snapshot ended, and the files that there are. */
  def ends: Seq[String] = outcomes.asScala.toSeq

  def written: Seq[String] = files.asScala.toSeq
}
