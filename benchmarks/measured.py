"""Run one command and print what it used, as JSON; small, because a process inherits its parent's peak memory.

python benchmarks/measured.py CPU_SECONDS[:MIB] COMMAND ...
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys


def main() -> None:
    seconds, _, mebibytes = sys.argv[1].partition(":")
    limit = int(float(seconds))

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        if mebibytes:
            resource.setrlimit(resource.RLIMIT_DATA, (int(mebibytes) * 2**20,) * 2)

    process = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, preexec_fn=limited)
    _, status, used = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    print(json.dumps({"code": code, "cpu_seconds": cpu, "peak_bytes": used.ru_maxrss * 1024, "limit": limit}))


if __name__ == "__main__":
    main()
