# SPDX-License-Identifier: MIT
#
# other-redis-py.py SOCKET KEY MS HOLD-US THINK-US - the Lock of redis-py, as it is by default; see bench-other.c
import sys
import time

import redis

client = redis.Redis(unix_socket_path=sys.argv[1])
client.ping()
lock = client.lock(sys.argv[2], timeout=30)
ms, hold, think = (int(a) for a in sys.argv[3:6])
waits = []

print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + ms / 1000
while True:
    asked = time.monotonic()
    lock.acquire()
    got = time.monotonic()
    time.sleep(hold / 1e6)
    lock.release()
    if got >= end:
        break
    waits.append(got - asked)
    time.sleep(think / 1e6)
print("\n".join("%.1f" % (w * 1e6) for w in waits), end="\n" if waits else "")
