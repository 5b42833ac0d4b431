package tailrace.commit

import java.io.OutputStream

import org.apache.spark.unsafe.Platform

import tailrace.cold.{ColdEntry, ColdReader, ColdRef, ColdRefs}
import tailrace.format.{Codec, EntryKind, FileHeader, StateFileWriter}
import tailrace.layout.{Nodes, Record}

/** Writes records, wherever they are, as the entries of a state file. */
private[commit] final class RecordFile(stream: OutputStream, header: FileHeader, codec: Codec) {
  private val file = new StateFileWriter(stream, header, codec)

  /** Of a snapshot: the records of a family follow, those of the next hash after each `nextHash`. */
  def section(family: Int, byHash: Boolean, blockSize: Int = StateFileWriter.BlockSize): Unit =
    file.section(family, byHash, blockSize)

  def nextHash(hash: Int): Unit = file.nextHash(hash)

  def put(family: Int, record: Record): Unit = file.entry(EntryKind.Put, family,
    null, record.keyAddress, record.keyLength, null, record.valueAddress, record.valueLength)

  /** A record that is not in memory. */
  def put(family: Int, entry: ColdEntry): Unit = file.entry(EntryKind.Put, family,
    entry.bytes, entry.key, entry.keyLength, entry.bytes, entry.payload, entry.payloadLength)

  def remove(family: Int, record: Record): Unit = file.entry(EntryKind.Remove, family,
    null, record.keyAddress, record.keyLength, null, 0L, 0)

  /** The last value of the record's list, as one appended to the values before it. */
  def append(family: Int, record: Record): Unit = {
    val node = record.listLast
    file.entry(EntryKind.Append, family, null, record.keyAddress, record.keyLength,
      null, node.valueAddress, node.length)
  }

  /** The same, if it needs no block to be written: nothing but memory is touched then. */
  def tryPut(family: Int, record: Record): Boolean = {
    val fits = file.hasRoom(record.keyLength, record.valueLength)
    if (fits) put(family, record)
    fits
  }

  /** For each node of the record's list, the reference to its values, or none: they are in memory. */
  def spilledOf(record: Record): ColdRefs = {
    val nodes = record.nodes
    new ColdRefs(Array.tabulate(nodes.length) { place =>
      val node = nodes(place)
      (if (node.isCold) node.coldRef else ColdRef.None).raw
    })
  }

  /** The values that these references name; null where there is none. */
  def readSpilled(refs: ColdRefs, cold: ColdReader): Array[ColdEntry] =
    Array.tabulate(refs.length) { place =>
      val ref = refs(place)
      if (ref.raw == ColdRef.None.raw) null else cold(ref)
    }

  /** The record's whole list; `cold` reads those of its values that are not in memory. */
  def putList(family: Int, record: Record, cold: ColdReader): Unit = {
    val spilled = readSpilled(spilledOf(record), cold)
    while (!tryPutList(family, record, spilled)) writeBlock()
  }

  /**
   * The record's whole list, if it needs no block to be written. `spilled` has the values of nodes that
   * are not in memory, and null for the others.
   */
  def tryPutList(family: Int, record: Record, spilled: Array[ColdEntry]): Boolean = {
    val nodes = record.nodes
    var length = 0L
    spilled.indices.foreach { place =>
      val entry = spilled(place)
      length += (if (entry != null) entry.payloadLength.toLong else 4L + nodes(place).length)
    }
    if (length > Int.MaxValue / 2) {
      throw new IllegalStateException(s"a list of $length bytes is too long for one key")
    }
    val fits = file.hasRoom(record.keyLength, length.toInt)
    if (fits) {
      file.entry(EntryKind.PutList, family, null, record.keyAddress, record.keyLength,
        length.toInt)((target, begin) => fill(nodes, spilled, target, begin))
    }
    fits
  }

  /** Writes what was put so far. */
  def writeBlock(): Unit = file.writeBlock()

  private def fill(
      nodes: Nodes, spilled: Array[ColdEntry], target: Array[Byte], begin: Long): Unit = {
    var at = begin
    spilled.indices.foreach { place =>
      val entry = spilled(place)
      if (entry != null) { // its payload is already written as a list is
        Platform.copyMemory(entry.bytes, entry.payload, target, at, entry.payloadLength.toLong)
        at += entry.payloadLength
      } else {
        val node = nodes(place)
        Platform.putInt(target, at, node.length)
        Platform.copyMemory(null, node.valueAddress, target, at + 4, node.length.toLong)
        at += 4 + node.length
      }
    }
  }

  def finish(): Unit = file.finish()
}
