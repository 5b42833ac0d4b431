/*
 * Problem: a production process must not be stopped, delayed or deprived of a rule by its
 * environment; a process of a test must.
 * Answer: a plugin that only the tests' jar has. Listed in `spark.plugins` before tailrace's own, it
 * installs a runtime made from TAILRACE_FAILPOINTS and TAILRACE_RULES_OFF. It also overwrites memory
 * that the engine frees: code that still reads it gives wrong rows, or crashes, in a test.
 * Invariant: a specification that cannot be read ends the process: a fault that never fires would
 * prove nothing.
 */
package tailrace.testing

import java.util

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}

import tailrace.faults.{Failpoints, Rule, Rules}
import tailrace.spark.EngineRuntime

class FaultsPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new DriverPlugin {
    override def init(context: SparkContext, plugin: PluginContext): util.Map[String, String] = {
      FaultsPlugin.install()
      util.Map.of()
    }
  }

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(plugin: PluginContext, extra: util.Map[String, String]): Unit =
      FaultsPlugin.install()
  }
}

object FaultsPlugin {
  private var installed = false

  /** Once: in local mode the process is driver and executor, and a session may follow another. */
  def install(): Unit = synchronized {
    if (!installed) {
      installed = true
      EngineRuntime.install(new EngineRuntime(rules, failpoints, poisonsMemory = true))
    }
  }

  private def rules: Rules = Rules.allBut(System.getenv().getOrDefault("TAILRACE_RULES_OFF", ""))

  private def failpoints: Failpoints = {
    val points = new Failpoints
    points.arm(System.getenv().getOrDefault("TAILRACE_FAILPOINTS", ""))
    points
  }

  /** Passes a failpoint and asks a rule, in a process of its own. */
  def main(arguments: Array[String]): Unit = {
    install()
    EngineRuntime.current.failpoints.pass("probe")
    val on = EngineRuntime.current.rules.isOn(Rule.PublishAfterDurable)
    println(s"rule 1 is ${if (on) "on" else "off"}")
  }
}
