package tailrace.format

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}

/**
 * The fields of a file before its first block.
 *
 * @param kind          changes or snapshot
 * @param version       the version of the state after this file
 * @param lineage       that version's lineage
 * @param parentLineage the lineage of the version before (changes only; 0 in a snapshot)
 * @param store         operator, partition and name of the store, so that a file that was put in
 *                      another store's folder is noticed
 */
final case class FileHeader(
    kind: FileKind,
    version: Long,
    lineage: Long,
    parentLineage: Long,
    store: String,
    families: Seq[FileHeader.FamilyEntry])

/** How the keys of a family are sorted: a code and its parameter. */
final case class KeyOrder(code: Byte, parameter: Int)

/**
 * The properties of a column family, apart from its rows.
 *
 * @param order      None: point access only
 * @param multiValue a key has a list of values
 * @param internal   Spark's own bookkeeping
 * @param keyTypes   the types of the key's columns, as Spark names them
 */
final case class FamilyShape(
    order: Option[KeyOrder], multiValue: Boolean, internal: Boolean, keyTypes: String,
    valueTypes: String)

sealed abstract class FileKind(val code: Byte, val suffix: String)

object FileKind {
  case object Changes extends FileKind(1, ".changes.tr")
  case object Snapshot extends FileKind(2, ".snapshot.tr")

  val all: Seq[FileKind] = Seq(Changes, Snapshot)
}

object FileHeader {
  /**
   * @param rows    the number of its keys at this version, so that a table can be made in its size
   * @param dropped the batch's changes name it, but after the batch there is no such family
   */
  final case class FamilyEntry(
      id: Int, name: String, shape: FamilyShape, rows: Long, dropped: Boolean = false)

  private val MultiValue = 1
  private val Internal = 2
  private val Dropped = 4

  /**
   * {{{
   *   header := version(i64) lineage(u64) parentLineage(u64) store(text) count(u16) family*
   *   family := id(u16) flags(u8: 1 many values, 2 internal, 4 dropped) order(u8; 0: none)
   *             parameter(u16) rows(u64) name(text) keyTypes(text) valueTypes(text)
   *   text   := length(u32) UTF-8 bytes
   * }}}
   * Numbers in the header are big-endian, as `DataOutput` writes them.
   */
  def encode(header: FileHeader): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeLong(header.version)
    out.writeLong(header.lineage)
    out.writeLong(header.parentLineage)
    writeText(out, header.store)
    out.writeShort(header.families.size)
    header.families.foreach { entry =>
      out.writeShort(entry.id)
      out.writeByte(
        (if (entry.shape.multiValue) MultiValue else 0) |
          (if (entry.shape.internal) Internal else 0) | (if (entry.dropped) Dropped else 0))
      out.writeByte(entry.shape.order.fold(0)(_.code.toInt))
      out.writeShort(entry.shape.order.fold(0)(_.parameter))
      out.writeLong(entry.rows)
      writeText(out, entry.name)
      writeText(out, entry.shape.keyTypes)
      writeText(out, entry.shape.valueTypes)
    }
    bytes.toByteArray
  }

  def decode(kind: FileKind, bytes: Array[Byte]): FileHeader = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    val version = in.readLong()
    val lineage = in.readLong()
    val parentLineage = in.readLong()
    val store = readText(in)
    val families = Seq.fill(in.readUnsignedShort()) {
      val id = in.readUnsignedShort()
      val flags = in.readUnsignedByte()
      val order = in.readByte()
      val parameter = in.readUnsignedShort()
      val rows = in.readLong()
      val name = readText(in)
      FamilyEntry(id, name, FamilyShape(
        if (order == 0) scala.None else Some(KeyOrder(order, parameter)),
        multiValue = (flags & MultiValue) != 0,
        internal = (flags & Internal) != 0,
        keyTypes = readText(in),
        valueTypes = readText(in)), rows, dropped = (flags & Dropped) != 0)
    }
    FileHeader(kind, version, lineage, parentLineage, store, families)
  }

  private def writeText(out: DataOutputStream, text: String): Unit = {
    val bytes = text.getBytes("UTF-8")
    out.writeInt(bytes.length)
    out.write(bytes)
  }

  private def readText(in: DataInputStream): String = {
    val bytes = new Array[Byte](in.readInt())
    in.readFully(bytes)
    new String(bytes, "UTF-8")
  }
}
