<?php
// SPDX-License-Identifier: MIT
// Keys across hosts, by scripts and by php-fpm.

declare(strict_types=1);

namespace Lockshm\Tests;

use Lockshm\BridgeException;
use Lockshm\BusyException;
use Lockshm\Locks;
use Lockshm\LostException;
use Lockshm\TimeoutException;

require dirname(__DIR__) . '/support/fpm.php';

const FAR = 120.0; // a time-out that a test never reaches
$folder = getenv('WORK');
$redis = getenv('REDIS_URI');
$options = ['redis' => $redis, 'redis_ttl' => 60, 'redis_policy' => 'wait', 'global_keys' => ['seg:', 'other:']];
[$a, $b] = [Locks::open(getenv('HOST_A'), $options), Locks::open(getenv('HOST_B'), $options)];
$bare = Locks::open('php-bare-' . getmypid(), ['redis' => $redis]);
register_shutdown_function(fn() => Locks::destroy($bare->name()));

/** The exception of a call. */
function refusal(callable $call): \Throwable
{
    try {
        $call();
    } catch (\Throwable $refusal) {
        return $refusal;
    }
    throw new \RuntimeException('it was not refused');
}

function refused(string $class, string $pattern, callable $call): void
{
    $refusal = refusal($call);
    equal([$class, 1], [$refusal::class, preg_match($pattern, $refusal->getMessage())], $refusal->getMessage());
}

function redis(string $command): string
{
    $connection = stream_socket_client('unix://' . getenv('REDIS_SOCKET'));
    fwrite($connection, "$command\r\n");
    return rtrim((string)fgets($connection));
}

/** @return resource */
function worker(string $host, string $folder, int $times, string $key)
{
    $command = [PHP_BINARY, '-n', '-d', 'extension=' . getenv('EXTENSION'), __DIR__ . '/worker.php', $host, $folder, (string)$times, $key];
    return proc_open($command, [['file', '/dev/null', 'r']], $pipes);
}

function pool(string $host, string $folder, array $ini = []): Fpm
{
    mkdir("$folder/$host");
    return new Fpm("$folder/$host", 4, [], $ini + ['lockshm.segment' => $host]);
}

// The bridges lead, and host b has the name of host a.
$first = $a->exclusive('first', FAR, global: true);
until(fn() => str_contains(refusal(fn() => $b->exclusive('first', 0, global: true))->getMessage(), $a->name()), 'the name of host a');
$first->release();
$named = 'another host holds it: ' . preg_quote($a->name()) . ' \([0-9a-f]{16}\)$/';

$exclusion = [];
foreach (['count', 'seg:count'] as $key) {
    $exclusion["two processes on each of two hosts exclude each other: $key"] = function () use ($a, $b, $folder, $key) {
        file_put_contents("$folder/count", '0');
        file_put_contents("$folder/log", '');
        foreach ([$a, $b, $a, $b] as $locks) {
            $workers[] = worker($locks->name(), $folder, 25, $key);
        }
        equal([0, 0, 0, 0], array_map(proc_close(...), $workers), 'ends');
        equal('100', file_get_contents("$folder/count"), 'count');
        $tokens = array_map(intval(...), file("$folder/log"));
        $sorted = array_unique($tokens);
        sort($sorted);
        equal($sorted, $tokens, 'tokens');
    };
}

run($exclusion + [
    'a key that the segment makes global needs no argument' => function () use ($a, $b, $named) {
        $hold = $a->exclusive('seg:key', 0);
        equal(null, $b->tryExclusive('seg:key'), 'try');
        refused(BusyException::class, "/^'seg:key': not free: $named", fn() => $b->exclusive('seg:key', 0));
        refused(TimeoutException::class, "/^'seg:key': not granted in time, other hosts; last: $named", fn() => $b->exclusive('seg:key', 0.2));
        equal(true, $b->exclusive('key', 0)->isHeld(), 'another key');
        pcntl_signal(SIGALRM, fn() => $hold->release());
        pcntl_alarm(1);
        equal(true, $b->exclusive('seg:key', FAR)->isHeld(), 'granted after the handler');
        equal([true, false], [$a->once('seg:once', 600, fn() => 1), $b->once('seg:once', 600, fn() => 1)], 'once');
    },
    'a refused try and a time-out name the other host' => function () use ($a, $b, $named) {
        $hold = $a->exclusive('busy', FAR, global: true);
        equal(null, $b->tryExclusive('busy', global: true), 'try');
        refused(BusyException::class, "/^'busy': not free: $named", fn() => $b->exclusive('busy', 0, global: true));
        refused(TimeoutException::class, "/^'busy': not granted in time, other hosts; last: $named", fn() => $b->exclusive('busy', 0.3, global: true));
        equal(null, refusal(fn() => $b->exclusive('busy', 0, global: true))->holder, 'holder');
        equal(true, $b->exclusive('busy')->isHeld(), 'without the flag it is a key of host b alone');
        $hold->release();
        equal(true, $b->exclusive('busy', FAR, global: true)->isHeld(), 'after the release');
    },
    'a wait with handlers of signals' => function () use ($a, $b, $named) {
        $hold = $a->exclusive('signal', FAR, global: true);
        pcntl_signal(SIGALRM, fn() => $hold->release());
        pcntl_alarm(1);
        equal(true, $b->exclusive('signal', FAR, global: true)->isHeld(), 'granted after the handler');
    },
    'readers share, and do not upgrade' => function () use ($a, $b) {
        $one = $a->shared('readers', FAR, global: true);
        $two = $b->shared('readers', FAR, global: true);
        refused(BusyException::class, '/release it, then acquire it exclusive$/', $two->upgrade(...));
        equal(true, $two->isHeld(), 'still shared');
    },
    'a host that has lost the key has lost its holds' => function () use ($a, $b) {
        $hold = $a->exclusive('lost', FAR, global: true);
        equal(':1', redis('DEL lk:lost'), 'DEL');
        until(fn() => !$hold->isHeld(), 'the loss');
        $other = $b->exclusive('lost', FAR, global: true);
        refused(LostException::class, "/^'lost' was lost/", $hold->release(...));
        equal(true, $other->release(), 'release');
    },
    'a killed holder of a robust key is told to the other host, until that acknowledges' => function () use ($a, $b) {
        $code = '$hold = Lockshm\\Locks::open($argv[1])->exclusive("robust", 120, robust: true, global: true); echo "held\n"; sleep(120);';
        $holder = proc_open([PHP_BINARY, '-n', '-d', 'extension=' . getenv('EXTENSION'), '-r', $code, $a->name()], [1 => ['pipe', 'w']], $pipes);
        equal("held\n", fgets($pipes[1]), 'the holder');
        $pid = proc_get_status($holder)['pid'];
        proc_terminate($holder, SIGKILL);
        proc_close($holder);
        $hold = $b->exclusive('robust', FAR, robust: true, global: true);
        $previous = $hold->damage();
        equal(['died', 0, 1], [$previous?->status, $previous?->pid, preg_match("/^$pid@[0-9a-f]{16}$/", (string)$previous?->tag)], 'previous');
        $hold->acknowledge();
        equal(null, $hold->damage(), 'acknowledged');
        $hold->release();
        foreach ([$a, $b] as $locks) {
            $hold = $locks->exclusive('robust', FAR, robust: true, global: true);
            equal(null, $hold->damage(), 'the next');
            $hold->release();
        }
    },
    'without a bridge the error says how to start one, or the key is local' => function () use ($bare) {
        $text = 'no bridge to Redis runs: start one with "lockshm-bridge \/' . preg_quote($bare->name()) . '"$/';
        refused(BridgeException::class, "/^'k': $text", fn() => $bare->exclusive('k', FAR, global: true));
        refused(BridgeException::class, "/^'k': $text", fn() => $bare->tryExclusive('k', global: true));
        refused(TimeoutException::class, "/^'k': not granted in time: $text", fn() => $bare->exclusive('k', 0.2, global: true, redisPolicy: 'wait'));
        $hold = $bare->exclusive('k', FAR, global: true, redisPolicy: 'local-only');
        equal([true, 0], [$hold->isLocalOnly(), $hold->token()], 'local');
        $hold->release();
        equal(false, $bare->exclusive('k')->isLocalOnly(), 'without the flag');
    },
    'the calls with a function are for all hosts' => function () use ($a, $b) {
        equal(true, $a->once('once', 600, fn() => 1, global: true), 'once');
        equal(false, $b->once('once', 600, fn() => 1, global: true), 'once again');
        $value = null;
        foreach ([$a, $b] as $locks) {
            $locks->singleFlight('page', function () use (&$value) {
                return $value;
            }, function () use (&$value) {
                return $value = ($value ?? 0) + 1;
            }, FAR, global: true);
        }
        equal(1, $value, 'filled once');
        equal(true, $a->seat('seat', fn() => $b->tryExclusive('seat', global: true) === null, global: true), 'seat');
    },
    'the example of README.md' => function () use ($a, $b, $bare, $redis, $named) {
        preg_match_all('/^```php\n<\?php\n(.*?)^```$/ms', file_get_contents(dirname(__DIR__, 2) . '/README.md'), $blocks);
        $output = function (Locks $locks, string $timeout) use ($blocks, $redis): string {
            ob_start();
            eval(strtr($blocks[1][1], ["'shop'" => "'{$locks->name()}'", 'redis://10.0.0.5' => $redis, 'timeout: 5.0' => "timeout: $timeout"]));
            return ob_get_clean();
        };
        equal(1, preg_match('/^token \d+\n$/', $output($a, '120.0')), 'free');
        $hold = $a->exclusive('report', FAR, global: true);
        equal(1, preg_match("/^'report': not granted in time, other hosts; last: $named", $output($b, '0.3')), 'busy');
        equal("'report': no bridge to Redis runs: start one with \"lockshm-bridge /{$bare->name()}\"\n", $output($bare, '120.0'), 'no bridge');
    },
    'options of a segment' => function () use ($redis) {
        $locks = Locks::open('php-options-' . getmypid(), [
            'redis' => ['redis://192.0.2.1', 'redis://192.0.2.2', $redis], 'redis_ttl' => 5, 'redis_policy' => 'wait', 'redis_prefix' => 'mine:',
            'redis_quorum' => true, 'redis_gap' => 0.05, 'redis_retain' => 0.5, 'host_leases' => 8, 'global_keys' => '*',
        ]);
        $stat = json_decode(lockctl('stat', $locks->name(), '--json'), true);
        $shown = array_map(fn($name) => $stat[$name], ['bridge_servers', 'bridge_ttl_ms', 'bridge_policy', 'bridge_prefix', 'redis_quorum', 'bridge_gap_ms', 'bridge_retain_ms', 'bridge_host_leases', 'global_keys']);
        equal(["redis://192.0.2.1,redis://192.0.2.2,$redis", 5000, 'wait', 'mine:', true, 50, 500, 8, '*'], $shown, 'stat');
        Locks::destroy($locks->name());
        refused(BridgeException::class, '/no bridge to Redis runs/', fn() => $locks->tryExclusive('k')); // made anew
        $stat = json_decode(lockctl('stat', $locks->name(), '--json'), true);
        equal(["redis://192.0.2.1,redis://192.0.2.2,$redis", '*'], [$stat['bridge_servers'], $stat['global_keys']], 'the same options');
        Locks::destroy($locks->name());
    },
    'wrong arguments' => function () use ($a, $redis) {
        $open = fn(array $options) => fn() => Locks::open('php-wrong-' . getmypid(), $options);
        refused(\ValueError::class, '/must begin with redis:/', $open(['redis' => 'http://x']));
        refused(\ValueError::class, '/must begin with redis:/', $open(['redis' => 5]));
        refused(\ValueError::class, '/global_keys/', $open(['global_keys' => '*']));
        refused(\ValueError::class, '/redis_ttl is 500ms, must be 1s..1h/', $open(['redis' => $redis, 'redis_ttl' => 0.5]));
        refused(\ValueError::class, '/redis_ttl is \'soon\', must be 1s..1h/', $open(['redis' => $redis, 'redis_ttl' => 'soon']));
        refused(\ValueError::class, '/redis_policy is local-only, must be fail or wait/', $open(['redis' => $redis, 'redis_policy' => 'local-only']));
        refused(\ValueError::class, '/redis_quorum is \'1\', must be yes or no/', $open(['redis' => $redis, 'redis_quorum' => 1]));
        refused(\ValueError::class, '/\$redisPolicy\) must be "fail", "wait" or "local-only"/', fn() => $a->exclusive('k', global: true, redisPolicy: 'no'));
        refused(\ValueError::class, '/has 641 bytes, a global one at most 640/', fn() => $a->exclusive(str_repeat('k', 641), FAR, global: true));
        equal(true, $a->exclusive(str_repeat('k', 640), FAR, global: true)->isHeld(), '640 bytes');
        $plain = Locks::open('php-plain-' . getmypid());
        refused(\ValueError::class, '/in a segment without Redis/', fn() => $plain->exclusive('k', global: true));
        Locks::destroy($plain->name());
    },
    'php-fpm: a hold ends with its request, and a wait at the time limit' => function () use ($a, $b, $folder) {
        $fpm = pool($a->name(), $folder);
        equal(true, (int)$fpm->get('hold', ['key' => 'fpm', 'end' => 'exit', 'global' => 1]) > 0, 'held');
        $hold = $b->exclusive('fpm', FAR, global: true);
        $body = $fpm->get('wait', ['key' => 'fpm', 'limit' => 1, 'global' => 1]);
        equal(true, str_contains($body, 'Maximum execution time of 1 second exceeded'), $body);
        equal(true, $hold->release(), 'in time');
        $fpm->stop();
    },
    'php-fpm: sessions across hosts' => function () use ($a, $b, $folder) {
        mkdir("$folder/sessions");
        $ini = ['session.save_handler' => 'lockshm', 'lockshm.session_global' => '1', 'lockshm.session_wait' => '120', 'session.save_path' => "$folder/sessions"];
        mkdir("$folder/pools");
        $pools = array_map(fn($locks) => pool($locks->name(), "$folder/pools", $ini), [$a, $b]);
        $cookie = 'PHPSESSID=' . bin2hex(random_bytes(16));
        for ($i = 0; $i < 20; $i++) {
            $requests[] = $pools[$i % 2]->send('session', [], $cookie);
        }
        foreach ($requests as $request) {
            equal(true, str_starts_with($request->body(), 'started'), $request->answer());
        }
        equal(1, preg_match('/"n":20\b/', $pools[0]->get('session', ['read' => 1], $cookie)), 'none was lost');
        equal(true, str_contains(lockctl('show', $a->name(), 'session:' . sha1(substr($cookie, 10))), 'lease'), 'by leases of the hosts');
    },
]);
