"""The queries of the bench, by name, and the suites that group them.

workload = WORKLOADS["q5"]
source = stream(spark, workload.configured(rows_per_batch=50_000), 50_000)
frame = workload.build(source, workload.query)
frame.writeStream.outputMode(workload.output_mode)...
"""

from tailrace.bench.workloads import (
    cluster,
    evicting,
    keyed,
    linear_road,
    nexmark_keys,
    nexmark_sessions,
    nexmark_windows,
    spilling,
    ysb,
)
from tailrace.bench.workloads.base import OutputMode, Pattern, QueryOptions, Workload

_NEXMARK = ("q5", "q5-append", "q7", "q7-session", "q8", "q11", "q11-median", "q12", "q13", "q18",
            "q19", "q20")  # fmt: skip
_MODULES = (
    nexmark_windows,
    nexmark_sessions,
    nexmark_keys,
    linear_road,
    cluster,
    ysb,
    keyed,
    evicting,
    spilling,
)
_BY_NAME = {workload.name: workload for module in _MODULES for workload in module.WORKLOADS}
_ORDER = (*_NEXMARK, "q13-state", "lr2", "lr4", "cm1", "cm2", "ysb", "ysb-redis", "readwrite",
          "update", "window-append", "window-median", "sessions", "session-median", "dedup",
          "dedup-within", "join", "spill-update", "spill-windows", "spill-dedup",
          "spill-sessions")  # fmt: skip

WORKLOADS: dict[str, Workload] = {name: _BY_NAME[name] for name in _ORDER}

SUITES: dict[str, tuple[str, ...]] = {
    "nexmark": _NEXMARK,
    # FlowKV, figure 8.
    "flowkv": ("q5", "q5-append", "q7", "q7-session", "q8", "q11", "q11-median", "q12"),
    # MiSA, figures 9 to 14.
    "misa": ("lr2", "lr4", "cm1", "cm2"),
    # Keyed Prefetching, figure 6.
    "prefetch": ("q13-state", "q18", "q19", "q20", "ysb-redis", "readwrite"),
    # Stateful stream processing on SSDs, figure 2.
    "readwrite": ("readwrite",),
    # The same work per batch at the state sizes of GROWTH_KEYS.
    "growth": ("update",),
    "quick": ("update", "window-append"),
    # A tenth of the state is evicted with every batch.
    "evict": ("window-append", "sessions", "session-median", "dedup", "dedup-within", "join"),
    # State two to three times as large as its memory.
    "spill": ("update", "spill-update", "spill-windows", "spill-dedup", "spill-sessions"),
}

GROWTH_KEYS = (100_000, 1_000_000, 5_000_000, 10_000_000)

__all__ = [
    "GROWTH_KEYS",
    "SUITES",
    "WORKLOADS",
    "OutputMode",
    "Pattern",
    "QueryOptions",
    "Workload",
]
