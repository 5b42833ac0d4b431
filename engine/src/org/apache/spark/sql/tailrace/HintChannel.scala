package org.apache.spark.sql.tailrace

import java.nio.ByteBuffer
import java.util
import java.util.concurrent.{ArrayBlockingQueue, ConcurrentHashMap}

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient, TransportClientBootstrap}
import org.apache.spark.network.crypto.{AuthClientBootstrap, AuthServerBootstrap}
import org.apache.spark.network.netty.SparkTransportConf
import org.apache.spark.network.server._
import org.slf4j.LoggerFactory

/**
 * From executor to executor. Spark's own messaging has no way between executors but through the
 * driver, which should not carry every key of every batch. So each executor listens on a port of
 * its own, with Spark's transport and Spark's authentication and encryption.
 *
 * A thread sends what tasks have put into a short queue. If it is full, or the other executor cannot
 * be reached, hints are dropped: they are a side channel.
 */
final class HintChannel private (conf: SparkConf, host: String, take: Array[Byte] => Unit) {
  import HintChannel._

  private val env = SparkEnv.get
  private val transport = SparkTransportConf.fromSparkConf(
    conf, Module, 1, sslOptions = Some(env.securityManager.getRpcSSLOptions()))
  private val context = new TransportContext(transport, new Receiver(take))
  private val isSecured = env.securityManager.isAuthenticationEnabled()
  private val clients = context.createClientFactory(clientBootstraps)
  private val server = context.createServer(host, 0, serverBootstraps)
  private val queue = new ArrayBlockingQueue[Letter](MostQueued)
  private val silentUntil = new ConcurrentHashMap[(String, Int), java.lang.Long]
  @volatile private var isClosed = false
  private val sender = new Thread(() => sendAll(), "tailrace-hint-sender")
  sender.setDaemon(true)
  sender.start()

  def port: Int = server.getPort

  /** False: the queue is full. */
  def send(host: String, port: Int, bytes: Array[Byte]): Boolean =
    queue.offer(new Letter(host, port, bytes))

  def close(): Unit = {
    isClosed = true
    sender.interrupt()
    server.close()
    clients.close()
    context.close()
  }

  private def sendAll(): Unit = while (!isClosed) {
    try {
      val letter = queue.take()
      val address = (letter.host, letter.port)
      val until = silentUntil.get(address)
      if (until == null || until < System.nanoTime()) deliver(letter, address)
    } catch {
      case _: InterruptedException => // closed
    }
  }

  private def deliver(letter: Letter, address: (String, Int)): Unit = try {
    clients.createClient(letter.host, letter.port).send(ByteBuffer.wrap(letter.bytes))
    silentUntil.remove(address)
  } catch {
    case interrupted: InterruptedException => throw interrupted
    case error: Exception =>
      silentUntil.put(address, System.nanoTime() + SilenceNanos)
      log.info(s"The executor at ${letter.host}:${letter.port} cannot be reached; hints for it are " +
        s"dropped for a while: $error")
  }

  private def clientBootstraps: util.List[TransportClientBootstrap] =
    if (isSecured) {
      util.List.of(new AuthClientBootstrap(transport, conf.getAppId, env.securityManager))
    } else {
      util.List.of()
    }

  private def serverBootstraps: util.List[TransportServerBootstrap] =
    if (isSecured) util.List.of(new AuthServerBootstrap(transport, env.securityManager))
    else util.List.of()
}

object HintChannel {
  private val log = LoggerFactory.getLogger(classOf[HintChannel])
  private val Module = "tailrace-hints"
  /** Of messages, 16 KiB each at the most. */
  private val MostQueued = 512
  private val SilenceNanos = 10L * 1000 * 1000 * 1000
  private val Settings = Map("numConnectionsPerPeer" -> "1", "serverThreads" -> "1",
    "clientThreads" -> "1", "connectionCreationTimeout" -> "5s", "maxRetries" -> "0")

  /** Listens at this host, on any port. */
  def open(host: String, take: Array[Byte] => Unit): HintChannel = {
    val conf = SparkEnv.get.conf.clone
    Settings.foreach { case (name, value) => conf.setIfMissing(s"spark.$Module.io.$name", value) }
    new HintChannel(conf, host, take)
  }

  private final class Letter(val host: String, val port: Int, val bytes: Array[Byte])

  private final class Receiver(take: Array[Byte] => Unit) extends RpcHandler {
    private val streams = new OneForOneStreamManager

    override def receive(client: TransportClient, message: ByteBuffer): Unit = {
      val bytes = new Array[Byte](message.remaining)
      message.get(bytes)
      try take(bytes) catch {
        case error: Exception => log.debug("A message with hints was dropped.", error)
      }
    }

    override def receive(
        client: TransportClient, message: ByteBuffer, callback: RpcResponseCallback): Unit =
      callback.onFailure(new UnsupportedOperationException("hints are not answered"))

    override def getStreamManager: StreamManager = streams
  }
}
