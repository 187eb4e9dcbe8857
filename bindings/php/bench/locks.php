<?php
// SPDX-License-Identifier: MIT
// Prints what a lock costs through symfony/lock and through the extension itself: a free pair, a hand-over, a killed
// holder.  Started by run.sh: php locks.php SEGMENT REDIS-SOCKET SECONDS

declare(strict_types=1);

use Lockshm\Locks;
use Lockshm\Symfony\LockshmStore;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\FlockStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Store\SemaphoreStore;

require __DIR__.'/../packages/symfony/tests/bootstrap.php';
[, $segment, $socket, $seconds] = $argv;
$directory = sys_get_temp_dir();

/** @return array<string, Closure(): PersistingStoreInterface> opened anew in each process */
$stores = [
    'LockshmStore' => static fn () => new LockshmStore($segment),
    'FlockStore' => static fn () => new FlockStore($directory),
    'SemaphoreStore' => static fn () => new SemaphoreStore(),
    'RedisStore' => static function () use ($socket) {
        $redis = new Redis();
        $redis->connect($socket);

        return new RedisStore($redis);
    },
];

/** Median of ten measurements of the seconds one call of $pair takes. */
function seconds_of(Closure $pair, float $seconds): float
{
    $pair();
    $figures = [];
    for ($i = 0; $i < 10; ++$i) {
        $count = 0;
        $start = hrtime(true);
        do {
            for ($j = 0; $j < 50; ++$j) {
                $pair();
            }
            $count += 50;
            $passed = hrtime(true) - $start;
        } while ($passed < $seconds * 1e8);
        $figures[] = $passed / $count / 1e9;
    }
    sort($figures);

    return $figures[5];
}

/** Starts a process with a channel to it; it ends with $fn. */
function start(Closure $fn): array
{
    [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    if (0 === $pid = pcntl_fork()) {
        fclose($ours);
        $fn($theirs);
        posix_kill(getmypid(), SIGKILL);
    }
    fclose($theirs);

    return [$pid, $ours];
}

/** Seconds between the release (or the death) of the holder and the waiter's grant; the waiter has waited for a while. */
function handover(Closure $store, bool $kill, int $rounds): array
{
    $figures = [];
    for ($i = 0; $i < $rounds; ++$i) {
        $resource = "handover-$i-".getmypid();
        [$holder, $channel] = start(static function ($test) use ($store, $resource): void {
            $lock = (new LockFactory($store()))->createLock($resource, 2.0);
            $lock->acquire();
            fwrite($test, "held\n");
            fgets($test);
            $time = hrtime(true);
            $lock->release();
            fwrite($test, "$time\n");
            fgets($test);
        });
        fgets($channel);
        [$waiter, $grant] = start(static function ($test) use ($store, $resource): void {
            $lock = (new LockFactory($store()))->createLock($resource, 30);
            fwrite($test, "waits\n");
            $lock->acquire(true);
            fwrite($test, hrtime(true)."\n");
            $lock->release();
            fgets($test);
        });
        fgets($grant);
        usleep(20000 + random_int(0, 100000));
        if ($kill) {
            $from = hrtime(true);
            posix_kill($holder, SIGKILL);
        } else {
            fwrite($channel, "release\n");
            $from = (int) fgets($channel);
        }
        stream_set_timeout($grant, 10);
        $to = fgets($grant);
        $figures[] = $to ? ($to - $from) / 1e9 : INF;
        foreach ([$holder, $waiter] as $pid) {
            posix_kill($pid, SIGKILL);
            pcntl_waitpid($pid, $status);
        }
    }
    sort($figures);

    return $figures;
}

function show(float $seconds): string
{
    return match (true) {
        INF === $seconds => 'more than 10 s',
        $seconds < 1e-3 => sprintf('%.2f us', $seconds * 1e6),
        $seconds < 1 => sprintf('%.2f ms', $seconds * 1e3),
        default => sprintf('%.2f s', $seconds),
    };
}

printf("%-28s %14s %18s %18s %18s\n", '', 'free pair', 'hand-over p50', 'hand-over max', 'holder killed p50');
$rounds = (int) max(5, 10 * (float) $seconds);
foreach ($stores as $name => $store) {
    $opened = $store();
    $pair = seconds_of(static function () use ($opened): void {
        $lock = (new LockFactory($opened))->createLock('free', null);
        $lock->acquire();
        $lock->release();
    }, (float) $seconds);
    $passed = handover($store, false, $rounds);
    $killed = handover($store, true, 5);
    printf("%-28s %14s %18s %18s %18s\n", $name, show($pair), show($passed[intdiv($rounds, 2)]), show(end($passed)),
        show($killed[2]));
}
$locks = Locks::open($segment);
$free = seconds_of(static function () use ($locks): void {
    $locks->exclusive('free')->release();
}, (float) $seconds);
$try = seconds_of(static function () use ($locks): void {
    $locks->tryExclusive('free')->release();
}, (float) $seconds);
$call = seconds_of(static function () use ($locks): void {
    $locks->name();
    $locks->skipped();
}, (float) $seconds);
$costs = [
    'Locks::exclusive(), release()' => $free,
    'Locks::tryExclusive(), release()' => $try,
    'two calls that do nothing' => $call,
];
foreach ($costs as $what => $cost) {
    printf("%-34s %8s\n", $what, show($cost));
}
