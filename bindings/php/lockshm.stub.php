<?php

/**
 * @generate-class-entries
 * @undocumentable
 */

// SPDX-License-Identifier: MIT
namespace Lockshm {

    /**
     * One segment: a set of locks named by keys, shared by all processes that open it.  The handle is per process and
     * stays open until its end; open() is cheap after the first call.  Times are seconds.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Locks
    {
        private function __construct();

        /**
         * The segment of that name; made if there is none.
         *
         * @param string|null $segment letters, digits, '.', '_', '-'; null = lockshm.segment, if empty "php-" and the uid
         * @param array $options for a segment that is made, those of `lockctl create --help` with _ for -: ['keys' => 100_000,
         *                       'permissions' => 0660, 'group' => 'www', 'redis' => ['redis://10.0.0.5'], 'redis_ttl' => 10.0
         *                       (seconds), 'redis_quorum' => true].  What concerns Redis is to be the same on all hosts,
         *                       where a lockshm-bridge serves the segment
         * @throws SegmentException it cannot be opened: permission, damage, version, memory
         * @throws \ValueError a wrong name or option
         */
        public static function open(?string $segment = null, array $options = []): Locks;

        /**
         * Remove the segment's name.  Holds in it can be released; every later acquire uses a new segment.
         *
         * @throws SegmentException there is none, or no permission
         */
        public static function destroy(string $segment): void;

        /**
         * Take a key alone.  Waits in arrival order.  The wait counts as run time: it ends at max_execution_time with
         * PHP's own error.
         *
         * @param string $key 1 to 65535 bytes
         * @param float|null $timeout longest wait; 0 = try once, null = no bound
         * @param float|null $lease after this time without renewal others may take the key; null = never (strict)
         * @param bool $renew the lease is renewed while the process lives; it has 0.2 s at least then
         * @param float|null $maxHold renewal ends after this time
         * @param bool $outlive if it is not released the key stays closed until the lease would have ended, also after
         *                      the request; not renewed; not if the process is killed.  With $lease null: until the end
         *                      that renew() gave it, and not after a fatal error
         * @param bool $robust damage() reports a writer that died inside or overran its lease
         * @param string|null $tag shown to others; up to 30 bytes
         * @param bool $global exclude the other hosts with the same Redis, too; the key has up to 640 bytes
         * @param string|null $redisPolicy with no bridge, or Redis out of reach: "fail", "wait" for it, or "local-only", the
         *                                 key of this host alone (isLocalOnly()); null = that of the segment
         * @throws TimeoutException not granted in time; BusyException with $timeout 0
         * @throws DeadlockException the wait would depend on a hold of this process
         * @throws FullException a table of the segment is full
         * @throws BridgeException no exclusion across hosts: no lockshm-bridge runs, or Redis is out of reach, or refuses
         * @throws SegmentException the segment is damaged or cannot be opened again
         * @throws \ValueError a wrong argument
         */
        public function exclusive(
            string $key,
            ?float $timeout = 5.0,
            ?float $lease = 30.0,
            bool $renew = true,
            ?float $maxHold = null,
            bool $outlive = false,
            bool $robust = false,
            ?string $tag = null,
            bool $global = false,
            ?string $redisPolicy = null
        ): Hold;

        /**
         * Take a key together with other shared holds; all else as exclusive().  Not with $outlive.
         */
        public function shared(
            string $key,
            ?float $timeout = 5.0,
            ?float $lease = 30.0,
            bool $renew = true,
            ?float $maxHold = null,
            bool $outlive = false,
            bool $robust = false,
            ?string $tag = null,
            bool $global = false,
            ?string $redisPolicy = null
        ): Hold;

        /**
         * exclusive() without a wait, but for a reply of Redis with $global.  null = busy: lastHolder() has what was in the
         * way, null if that is another host; skipped() counts it.
         */
        public function tryExclusive(
            string $key,
            ?float $lease = 30.0,
            bool $renew = true,
            ?float $maxHold = null,
            bool $outlive = false,
            bool $robust = false,
            ?string $tag = null,
            bool $global = false,
            ?string $redisPolicy = null
        ): ?Hold;

        /**
         * shared() without a wait.  null = busy, as for tryExclusive().
         */
        public function tryShared(
            string $key,
            ?float $lease = 30.0,
            bool $renew = true,
            ?float $maxHold = null,
            bool $outlive = false,
            bool $robust = false,
            ?string $tag = null,
            bool $global = false,
            ?string $redisPolicy = null
        ): ?Hold;

        /**
         * Is the key held by any process, in any mode, or closed by a cooldown?
         */
        public function isLocked(string $key): bool;

        /**
         * The holds of a key, oldest first, then the waits in their order; without those of dead processes.  A
         * cooldown is one with the state "cooling".
         *
         * @return Holder[]
         */
        public function holders(string $key): array;

        /**
         * Operator: end exactly the hold or cooldown of $key that has $token, of any process.  Its owner's next call
         * throws LostException.
         *
         * @return bool false = no hold of the key has that token
         * @throws SegmentException
         */
        public function end(string $key, int $token): bool;

        /**
         * What was in the way of the last refused try of this process in this segment.
         */
        public function lastHolder(): ?Holder;

        /**
         * Refused tries and skipped once() calls of this process in this segment.
         */
        public function skipped(): int;

        public function name(): string;

        /**
         * The value of $look(); if that is null, one process computes it by $fill() and the others wait for it.
         *
         * $look is called once more after the key is held.  $fill computes the value, stores it where $look finds it,
         * and returns it.  If the filling process is killed exactly the next one fills.
         *
         * @param callable|null $stale called with the TimeoutException instead of a throw; its value is returned
         * @throws TimeoutException and the others of exclusive(); what the callables throw
         */
        public function singleFlight(
            string $key,
            callable $look,
            callable $fill,
            ?float $timeout = 5.0,
            ?float $lease = 30.0,
            ?callable $stale = null,
            bool $global = false,
            ?string $redisPolicy = null,
            ?string $tag = null
        ): mixed;

        /**
         * Call $fn at most once per $period, counted from the grant, over all processes.  A call that is in the way of
         * another one or too early is skipped: false.  Killed half way: no period begins, the next call runs.
         *
         * @param bool $retryOnFailure no period begins if $fn throws
         * @param mixed $result [out] the value of $fn
         * @return bool it ran
         */
        public function once(
            string $key,
            float $period,
            callable $fn,
            bool $retryOnFailure = false,
            mixed &$result = null,
            bool $global = false,
            ?string $redisPolicy = null,
            ?float $lease = 30.0,
            ?string $tag = null
        ): bool;

        /**
         * Wait without a bound until this process has the key, then call $fn(Hold); return its value.  Exactly one
         * process is inside; another takes over when it dies.  Command line only.
         */
        public function seat(
            string $key,
            callable $fn,
            ?float $lease = 30.0,
            bool $global = false,
            ?string $redisPolicy = null,
            ?string $tag = null
        ): mixed;
    }

    /**
     * A granted key.  It ends by release(), when the object is freed, at the end of the request, or with the process.
     * "late" below: the lease had expired, but no other holder had the key in between.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Hold
    {
        private function __construct();

        /**
         * End it.
         *
         * @param float $cooldown keep the key closed to all this much longer; exclusive holds only
         * @return bool false = late
         * @throws LostException another process has or had the key
         * @throws NotHeldException released before, or of the parent process
         */
        public function release(float $cooldown = 0.0): bool;

        /**
         * The lease ends $seconds from now; null = the time it was taken with, INF = no lease any more.
         *
         * @return bool false = late
         * @throws LostException
         * @throws NotHeldException
         */
        public function renew(?float $seconds = null): bool;

        /**
         * The lease ends $seconds after its present end.
         *
         * @return bool false = late
         * @throws LostException
         * @throws NotHeldException
         * @throws \ValueError a hold without a lease
         */
        public function extend(float $seconds): bool;

        /**
         * Is it still valid?  No system call.
         *
         * @return bool false = late
         * @throws LostException
         * @throws NotHeldException
         */
        public function check(): bool;

        /**
         * Make a shared hold exclusive, at once or not at all.  It gets a new token.
         *
         * @return bool false = late
         * @throws BusyException other requests hold the key or wait, or it is one across hosts that this host has shared:
         *                       release it, then acquire it exclusive; still shared
         * @throws LostException
         * @throws NotHeldException
         */
        public function upgrade(): bool;

        /**
         * Make an exclusive hold shared.
         *
         * @return bool false = late
         * @throws LostException
         * @throws NotHeldException
         */
        public function downgrade(): bool;

        /**
         * Seconds until the lease ends: null = it has none, 0.0 = it has expired and no other process took the key.
         *
         * @throws LostException
         * @throws NotHeldException
         */
        public function remaining(): ?float;

        /**
         * The fencing token: larger than that of every earlier exclusive hold of the key; 0 after release().
         */
        public function token(): int;

        /**
         * check() would not throw.
         */
        public function isHeld(): bool;

        /**
         * Exclusive, as last granted.
         */
        public function isExclusive(): bool;

        /**
         * Taken with $redisPolicy "local-only" while Redis was out of reach: other hosts are not excluded.
         */
        public function isLocalOnly(): bool;

        public function key(): string;

        /**
         * The damage mark of the key: the writer that died inside or overran its lease; null = none.
         *
         * @throws LostException
         * @throws NotHeldException
         */
        public function damage(): ?Damage;

        /**
         * Clear the damage mark: what the key protects is good again.
         *
         * @throws LostException
         * @throws NotHeldException
         */
        public function acknowledge(): void;
    }

    /**
     * A request for a key: what was in the way, or one that holds it.
     *
     * @strict-properties
     */
    final class Holder
    {
        /** "holding", "waiting", "cooling" (closed by a cooldown) or "bargeable" */
        public readonly string $state;
        /** "exclusive" or "shared" */
        public readonly string $mode;
        /** 0 = not known; of a cooldown there is none */
        public readonly int $pid;
        public readonly int $tid;
        /** name of its thread */
        public readonly string $name;
        public readonly string $tag;
        /** 0 = none yet, of a wait */
        public readonly int $token;
        /** seconds since the grant, or since the wait began */
        public readonly float $age;
        /** seconds until the lease ends, negative = overdue, null = no end */
        public readonly ?float $expiresIn;
    }

    /**
     * A holder that died inside ("died") or overran its lease ("expired").
     *
     * @strict-properties
     */
    final class Damage
    {
        /** "died" or "expired" */
        public readonly string $status;
        public readonly int $pid;
        public readonly int $tid;
        public readonly int $token;
        /** seconds since then */
        public readonly float $age;
        public readonly string $tag;
    }

    /** getCode(): a code of lockshm.h */
    class Exception extends \RuntimeException
    {
    }

    /** Not granted in time. */
    class TimeoutException extends Exception
    {
        /** What was in the way; null = not known */
        public readonly ?Holder $holder;
    }

    /** Not free right now. */
    class BusyException extends TimeoutException
    {
    }

    /** The hold was taken away: its lease was overrun, or an operator ended it. */
    class LostException extends Exception
    {
    }

    /** Released before, or a hold of the parent process. */
    class NotHeldException extends Exception
    {
    }

    /** The wait would depend on a hold of this process. */
    class DeadlockException extends Exception
    {
    }

    /** A table of the segment is full; the message names it. */
    class FullException extends Exception
    {
    }

    /** A key across hosts: no lockshm-bridge runs on this host, or Redis is out of reach, or refuses. */
    class BridgeException extends Exception
    {
    }

    /** The segment cannot be used. */
    class SegmentException extends Exception
    {
    }
}
