/*
 * Problem: which records are spilled, when, and by which thread, cannot be seen through Spark's
 * interface, where a spilled record reads like any other.
 * Answer: the real table with one family and a budget of its own, in the hands of a test.
 * Invariant: a record is named by its number; the rest of it is filler.
 */
package org.apache.spark.sql.tailrace.testing

import java.io.File
import java.nio.file.{Files, Paths}

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkContext
import org.apache.spark.unsafe.Platform

import tailrace.cache.Origin
import tailrace.cold.{ColdEntry, ColdFolders, ColdIo, ColdLog, ColdRef, ColdRefs, ColdStorage}
import tailrace.cold.{ColdTier, EvictionPolicy, LocalTier, RemoteFolders, SpillMode}
import tailrace.faults.Rules
import tailrace.files.{LocalRoot, Retries}
import tailrace.io.{Clock, IoKind, IoScheduler, Threads}
import tailrace.layout.{Record, UseClock}
import tailrace.layout.hash.HashLayout
import tailrace.memory.Budget
import tailrace.spark.{EngineRuntime, SharedSetting}
import tailrace.store.{Family, FamilyKind, FrozenVersion, PlannedFamily, StateTable}

class SpillHarness extends Operations {
  private val folders = new ColdFolders
  private val remote = new RemoteFolders(Threads.Daemons, () => budget.limit)
  import RowCodec.nodes

  private val calls = new Calls
  private val io = new IoScheduler(IoScheduler.DefaultPermits, IoScheduler.DefaultQueueLimit,
    Clock.system, Threads.Daemons.named("tailrace-io"))
  private val snapshots = new HeldSnapshots(io)
  private var other: (ColdLog, Seq[ColdRef]) = _
  private var table: StateTable = _
  private var budget: Budget = _
  private var shared: SharedSetting[Long] = _
  private var folder: File = _
  private var tierName: String = _
  private var scheme: String = _
  private var frozen: Option[FrozenVersion] = None
  private var remembered = (0L, 0)
  private val bytes = new Array[Byte](1 << 16)

  override protected def execute(operation: JsonNode): JsonNode = {
    def numbers = operation.path("from").asInt() until operation.path("until").asInt() by
      operation.path("by").asInt(1)
    operation.path("op").asText() match {
      case "new" => start(operation)
      case "put" => numbers.foreach(put(_, operation.path("size").asInt()))
      case "append" => numbers.foreach(append(_, operation.path("size").asInt()))
      case "get" =>
        val size = operation.path("size").asInt()
        return nodes.numberNode(numbers.count(sizeOf(_) == size))
      case "expect" =>
        numbers.foreach { number =>
          setKey(number)
          val time = operation.path("time").asLong(UseClock.Unknown)
          family.expect(bytes, Key, 8, table.clock.stampFor(time, operations = 0))
        }
        val origin = Option(operation.get("origin")).fold("look-ahead")(_.asText)
        table.prefetch.submit(Origin.all.find(_.name == origin).get)
      case "move_to" => table.clock.moveTo(operation.path("time").asLong())
      case "batch_over" => table.prefetch.batchOver()
      case "stamps" =>
        val found = nodes.arrayNode()
        layout.sweep { (_, record, stamp) =>
          found.add(numberIn(record)).add(stamp)
          true
        }
        return found
      case "spilling" =>
        return nodes.numberNode(io.queuedOf(IoKind.Spill) + io.runningNow(IoKind.Spill))
      case "get_later" => calls.start(operation.path("call").asText()) {
        nodes.numberNode(numbers.count(sizeOf(_) == operation.path("size").asInt()))
      }
      case "open_log" => other = logOfTwoSegments()
      case "clean_later" => calls.start("clean") {
        other._1.readToClean(other._2.last.segment)
        nodes.nullNode()
      }
      case "install_later" => calls.start("install") {
        other._1.spilling.installed()
        nodes.nullNode()
      }
      case "waits" => return nodes.booleanNode(calls.waits(operation.path("call").asText()))
      case "result" => return calls.result(operation.path("call").asText())
      case "prefetch" =>
        val counts = table.prefetch.counts
        return nodes.objectNode().put("hits", counts.hits).put("late", counts.late)
          .put("misses", counts.misses).put("in_vain", counts.inVain).put("lost", counts.lost)
          .put("arrived", counts.arrived)
          .put("bytes", table.prefetch.bufferedBytes).put("has_room", table.prefetch.hasRoom)
      case "forget_expected" => table.prefetch.clear()
      case "bandwidth" => io.bytesPerSecond = operation.path("bytes").asLong()
      case "reads" => return nodes.numberNode(io.countsOf(IoKind.Read).jobs)
      case "reading" =>
        return nodes.numberNode(io.queuedOf(IoKind.Read) + io.runningNow(IoKind.Read))
      case "values" => return nodes.numberNode(numbers.map(valuesOf).sum)
      case "remove" => numbers.foreach { number =>
        setKey(number)
        family.remove(table.changes, bytes, Key, 8)
      }
      case "remember" => // where the value is now: the record may be freed later
        setKey(numbers.head)
        val record = family.get(bytes, Key, 8)
        remembered = (record.valueAddress, record.valueLength)
      case "poisons" => // the memory of all other tests of this process
        return nodes.booleanNode(EngineRuntime.current.budget.poisons)
      case "bytes_there" =>
        val found = new Array[Byte](remembered._2)
        Platform.copyMemory(
          null, remembered._1, found, Platform.BYTE_ARRAY_OFFSET.toLong, found.length.toLong)
        return nodes.binaryNode(found)
      case "drain" => return nodes.numberNode(drain())
      case "begin" => table.begin()
      case "apply" => table.apply(0L)
      case "rollback" => table.rollback()
      case "revert" => table.revert()
      case "freeze" => frozen = table.freeze(operation.path("at_begin").asBoolean())
        return nodes.booleanNode(frozen.isDefined)
      case "occupy_snapshots" => snapshots.occupy()
      case "snapshot" => frozen = table.freeze()
        frozen.foreach(snapshots.submit(_, operation.path("hangs").asBoolean()))
        return nodes.booleanNode(frozen.isDefined)
      case "let_snapshots_go" => snapshots.letGo()
      case "snapshots" => return nodes.objectNode().put("ends", snapshots.ends.mkString(", "))
        .put("files", snapshots.written.size).put("frozen", table.isFrozen)
      case "frozen_records" => return recordsOf(frozen.get)
      case "frozen_log" => return spilledOf(frozen.get)
      case "thaw" => frozen.foreach(_.done())
      case "close_table" => table.close()
      case "close" =>
        snapshots.letGo()
        frozen.foreach(_.done())
        table.close()
      case "words" => // in the order of the table: a number, or its negative if it was spilled
        val found = nodes.arrayNode()
        layout.foreachWord(word => found.add(
          if (word.isCold) -1L - numberOf(word.ref) else numberIn(word.record)))
        return found
      case "resident" => return nodes.numberNode(layout.resident)
      case "swept" => return nodes.numberNode(layout.sweptSlots)
      case "slots" => return nodes.objectNode().put("files", table.coldLog.slots.bytes)
        .put("memory", layout.slotBytes).put("in_memory", slotsInMemory)
      case "overhead" => return nodes.numberNode(layout.overheadBytes)
      case "budget" => return nodes.objectNode().put("used", budget.used).put("limit", budget.limit)
      case "ask" => shared.ask(operation.path("bytes").asLong())
      case "withdraw" => shared.withdraw(operation.path("bytes").asLong())
      case "log" =>
        // An I/O thread may delete a file while the folder is read: it then has no length.
        val onDisk = filesIn(folder).filter(_.getName.endsWith(".cold")).map(_.length).sum
        return nodes.objectNode().put("live", table.coldLog.liveBytes)
          .put("total", table.coldLog.totalBytes).put("files", onDisk)
          .put("sound", table.coldLog.isSound).put("spilled", table.spilled)
          .put("returned", table.returned)
          .put("held", remote.heldBytes)
      case "threads" =>
        val found = nodes.objectNode()
        Seq(folders.fileCounts, remote.fileCounts).foreach(
          _.byThread.forEach((what, times) => found.put(what, times.longValue)))
        return found
      case "an_hour_later" => remote.renew()
      case "clean_gone" => return nodes.numberNode(cleanWhatIsGone())
      case "read_gone" => return nodes.numberNode(readWhatIsGone())
      case "access" => return nodes.numberNode(access(operation))
    }
    nodes.nullNode()
  }

  private def start(operation: JsonNode): Unit = {
    budget = new Budget(operation.path("limit").asLong(), poisons = true)
    shared = new SharedSetting("memory_limit", budget.limit)(budget.limit = _)
    folder = new File(operation.path("folder").asText())
    folder.mkdirs()
    if (operation.path("full").asBoolean()) {
      Files.createSymbolicLink(Paths.get(folder.getPath, "0.cold"), Paths.get("/dev/full"))
    }
    val mode = SpillMode.all.find(_.name == operation.path("mode").asText("on")).get
    val policy =
      EvictionPolicy.all.find(_.name == operation.path("cache").asText("timestamp")).get
    tierName = operation.path("io").asText("buffered")
    scheme = operation.path("scheme").asText("file")
    table = new StateTable(budget, _ => PlannedFamily.Unknown,
      ColdStorage.in(tierIn(folder)).copy(mode = mode, eviction = policy), io, "a store")
    table.createFamily("rows",
      FamilyKind(None, operation.path("lists").asBoolean(), false, "", ""))
    table.begin()
  }

  /** The tier that the test asked for. */
  private def tierIn(place: File): ColdTier =
    if (tierName == "remote") {
      val conf = new Configuration(SparkContext.getOrCreate().hadoopConfiguration)
      conf.setClassLoader(getClass.getClassLoader)
      conf.set("fs.scripted.impl", classOf[ScriptedRemoteFileSystem].getName)
      remote.tier(s"$scheme://${place.getPath}", conf, new Retries(1000L, Rules.All))
    } else {
      new LocalTier(new LocalRoot(Some(place.getPath)), () => place, folders.fileCounts,
        ColdIo.all.find(_.name == tierName).get)
    }

  private def filesIn(place: File): Seq[File] = Option(place.listFiles).toSeq.flatten.flatMap {
    each => if (each.isDirectory) filesIn(each) else Seq(each)
  }

  /** Entries that need no file of slots to be found. */
  private def slotsInMemory: Int = {
    var found = 0
    layout.foreachInMemory(_ => found += 1)
    found
  }

  private def family: Family = table.family("rows").get

  private def layout: HashLayout = family.layout.asInstanceOf[HashLayout]

  private val Key = Platform.BYTE_ARRAY_OFFSET.toLong
  private val Value = Key + 8

  private def setKey(number: Int): Unit = Platform.putLong(bytes, Key, number.toLong)

  private def put(number: Int, size: Int): Unit = {
    setKey(number)
    family.put(table.memory, table.changes, bytes, Key, 8, bytes, Value, size)
  }

  private def append(number: Int, size: Int): Unit = {
    setKey(number)
    family.append(table.memory, table.changes, bytes, Key, 8, bytes, Value, size)
  }

  private def sizeOf(number: Int): Int = {
    setKey(number)
    val record = family.get(bytes, Key, 8)
    if (record.isNone) -1 else record.valueLength
  }

  private def valuesOf(number: Int): Long = {
    setKey(number)
    val record = family.get(bytes, Key, 8)
    if (record.isNone) 0L else record.nodes.sum { node =>
      if (node.isCold) family.readCold(node).values.size.toLong else 1L
    }
  }

  /** Shows every record and removes those with an odd number, as an operator does; how many it saw. */
  private def drain(): Int = {
    val cursor = layout.cursor()
    var shown = 0
    var record = cursor.next()
    while (record.exists) {
      val number = numberIn(record).toInt
      setKey(number)
      if (number % 2 == 1) require(family.remove(table.changes, bytes, Key, 8))
      shown += 1
      record = cursor.next()
    }
    shown
  }

  private def numberIn(record: Record): Long = Platform.getLong(null, record.keyAddress)

  private def numberOf(ref: ColdRef): Long = {
    val entry = family.readColdOnce(ref)
    Platform.getLong(entry.bytes, entry.key)
  }

  /** Number and size of every record in memory that the frozen version shows; then it is freed. */
  private def recordsOf(version: FrozenVersion): JsonNode = {
    val found = nodes.arrayNode()
    version.families.foreach { part =>
      (0L until part.records.size).foreach { index =>
        val record = part.record(index)
        found.add(numberIn(record)).add(record.valueLength)
      }
    }
    version.pastRecords()
    found
  }

  private def spilledOf(version: FrozenVersion): JsonNode = {
    val found = nodes.arrayNode()
    version.log.foreach(() => ()) { entry =>
      found.add(Platform.getLong(entry.bytes, entry.key)).add(entry.payloadLength)
    }
    found
  }

  /**
   * A segment is chosen to be cleaned, its last entry is freed, and it is deleted, all before the
   * cleaning begins; how many entries that then finds.
   */
  private def cleanWhatIsGone(): Int = {
    val (log, refs) = logOfTwoSegments()
    log.free(refs(0))
    val chosen = log.nextToClean.get
    require(chosen == refs(0).segment)
    refs.filter(_.segment == chosen).drop(1).foreach(log.free)
    log.deleteGarbage()
    var found = 0
    log.readToClean(chosen).foreach(_.foreach((_, _) => found += 1))
    log.clear()()
    found
  }

  /** Entries are freed and their file is deleted before they are read ahead; how many that finds. */
  private def readWhatIsGone(): Int = {
    val (log, refs) = logOfTwoSegments()
    val gone = refs.filter(_.segment == refs(0).segment)
    val places = new ColdRefs(gone.map(_.raw).toArray)
    var found = 0
    log.readHinted(places)((_, _) => found += 1)
    require(found == gone.size)
    gone.foreach(log.free)
    log.deleteGarbage()
    found = 0
    log.readHinted(places)((_, _) => found += 1)
    require(log.isSound)
    log.clear()()
    found
  }

  /** A log with a full segment and the beginning of another. */
  private def logOfTwoSegments(): (ColdLog, Seq[ColdRef]) = {
    val other = new File(folder, "other")
    other.mkdirs()
    val log = new ColdLog(ColdStorage.in(tierIn(other)).copy(mode = SpillMode.Always), io)
    val entries = new ColdEntry.Builder
    setKey(1)
    entries.start(0, 0, bytes, Key, 8)
    entries.value(bytes, Value, 1500)
    val start = entries.finish()
    // Some fill a segment of 4 KiB; the next one seals it.
    val refs = Seq.fill(4)(log.spilling.append(
      0L, entries.bytes, start, new ColdEntry(entries.bytes, start).size))
    log.spilling.flush()
    (log, refs)
  }

  /** Nanoseconds of a look-up and an update, uniform over the keys: for a profile by hand. */
  private def access(operation: JsonNode): Double = {
    val (keys, times) = (operation.path("keys").asInt(), operation.path("times").asInt())
    val chance = new java.util.SplittableRandom(operation.path("seed").asLong(7))
    val started = System.nanoTime()
    var at = 0
    while (at < times) {
      setKey(chance.nextInt(keys))
      val found = family.get(bytes, Key, 8)
      family.putAfterGet(table.memory, table.changes, bytes, Key, 8, found, bytes, Value, 24)
      at += 1
    }
    (System.nanoTime() - started).toDouble / times
  }
}
