<?php
// SPDX-License-Identifier: MIT
// Sessions of a real php-fpm under parallel requests of one user.

declare(strict_types=1);

namespace Lockshm\Tests;

use Lockshm\Locks;

require dirname(__DIR__) . '/support/fpm.php';

$folder = getenv('WORK');
$locks = Locks::open(getenv('SEGMENT'));
register_shutdown_function(fn() => Locks::destroy(getenv('SEGMENT')));
$settings = ['session.save_handler' => 'lockshm', 'session.use_strict_mode' => '0'];
$stores = ['files' => ['lockshm.session_handler' => 'files', 'session.save_path' => $folder]];
if (getenv('REDIS_SOCKET')) {
    $stores['redis'] = ['lockshm.session_handler' => 'redis', 'session.save_path' => 'unix://' . getenv('REDIS_SOCKET'), 'extension' => 'igbinary', 'extension ' => 'redis'];
}

function id(): string
{
    return bin2hex(random_bytes(16));
}

function key(string $id): string
{
    return 'session:' . sha1($id);
}

/** A request that is inside its session until the file exists. */
function inside(Fpm $fpm, string $id, string $go, array $query = []): Request
{
    $request = $fpm->send('session', $query + ['do' => 'wait', 'go' => $go], "PHPSESSID=$id");
    until(fn() => Locks::open(getenv('SEGMENT'))->isLocked(key($id)), 'the session');
    return $request;
}

/** @return array<string, mixed> what is stored */
function stored(Fpm $fpm, string $id): array
{
    return json_decode(explode("\n", $fpm->get('session', ['read' => 1], "PHPSESSID=$id"))[1], true);
}

/** @return array<string, callable> */
function tests(string $store, Fpm $fpm, Locks $locks, string $folder): array
{
    return [
        "$store: fifty parallel requests in the order of arrival, nothing lost" => function () use ($fpm, $folder, $store) {
            $id = id();
            $requests = [inside($fpm, $id, "$folder/$store-order")];
            for ($i = 0; $i < 50; $i++) {
                $requests[] = $fpm->send('session', ['number' => $i], "PHPSESSID=$id");
                until(fn() => waiters(key($id)) === $i + 1);
            }
            touch("$folder/$store-order");
            foreach ($requests as $i => $request) {
                equal('started ' . $id, explode("\n", $request->body())[0], "request $i");
            }
            equal(['n' => 51, 'order' => range(0, 49)], stored($fpm, $id), 'session');
        },
        "$store: two hundred requests at once, nothing lost" => function () use ($fpm) {
            $id = id();
            $requests = array_map(fn($i) => $fpm->send('session', ['number' => $i], "PHPSESSID=$id"), range(0, 199));
            array_walk($requests, fn($request) => $request->body());
            $session = stored($fpm, $id);
            sort($session['order']);
            equal(['n' => 200, 'order' => range(0, 199)], $session, 'session');
        },
        "$store: other sessions do not wait, nor does one that was closed" => function () use ($fpm, $folder, $store) {
            $id = id();
            $request = inside($fpm, $id, "$folder/$store-others");
            equal('[]', explode("\n", $fpm->get('session', ['lockshm_session_wait' => 0], 'PHPSESSID=' . id()))[1], 'other');
            touch("$folder/$store-others");
            $request->body();
            equal('false', explode("\n", $fpm->get('session', ['do' => 'close'], "PHPSESSID=$id"))[2], 'closed');
        },
        "$store: readers do not wait for readers, but for a writer" => function () use ($fpm, $locks) {
            $id = id();
            $fpm->get('session', [], "PHPSESSID=$id");
            $hold = $locks->shared(key($id));
            equal("started $id\n" . '{"n":1}', $fpm->get('session', ['read' => 1, 'lockshm_session_wait' => 0], "PHPSESSID=$id"), 'reader');
            equal(true, str_contains($fpm->get('session', ['lockshm_session_wait' => 0], "PHPSESSID=$id"), 'refused'), 'writer');
            $hold->release();
            $hold = $locks->exclusive(key($id));
            $reader = $fpm->send('session', ['read' => 1], "PHPSESSID=$id");
            until(fn() => waiters(key($id)) === 1);
            $hold->release();
            equal("started $id\n" . '{"n":1}', $reader->body(), 'reader after a writer');
        },
        "$store: after lockshm.session_wait the request is refused, and nothing is written" => function () use ($fpm, $folder, $store) {
            $id = id();
            foreach ([0, 1] as $strict) {
                $request = inside($fpm, $id, "$folder/$store-wait$strict");
                foreach ([['read' => 1], []] as $query) {
                    $body = $fpm->get('session', $query + ['lockshm_session_wait' => 0.05, 'session_use_strict_mode' => $strict], "PHPSESSID=$id");
                    equal(1, preg_match('/The session is in use: not granted in 0.05 s: held exclusive by pid \d+ \(php-fpm/', $body), $body);
                    equal(true, str_contains($body, 'refused'), $body);
                }
                touch("$folder/$store-wait$strict");
                $request->body();
            }
            equal(['n' => 2], stored($fpm, $id), 'session');
        },
        "$store: at the time limit of a wait nothing is written" => function () use ($fpm, $folder, $store) {
            $id = id();
            $fpm->get('session', [], "PHPSESSID=$id");
            $request = inside($fpm, $id, "$folder/$store-limit");
            $body = $fpm->get('session', ['limit' => 1], "PHPSESSID=$id");
            equal(true, str_contains($body, 'Maximum execution time of 1 second exceeded'), $body);
            touch("$folder/$store-limit");
            $request->body();
            equal(['n' => 2], stored($fpm, $id), 'session');
        },
        "$store: the worker is killed, the next request goes on" => function () use ($fpm, $locks, $folder, $store) {
            $id = id();
            $fpm->get('session', [], "PHPSESSID=$id");
            inside($fpm, $id, "$folder/$store-never");
            $next = $fpm->send('session', ['lockshm_session_wait' => 60], "PHPSESSID=$id");
            until(fn() => waiters(key($id)) === 1);
            posix_kill($locks->holders(key($id))[0]->pid, SIGKILL);
            equal("started $id\n" . '{"n":1}', $next->body(), 'next');
        },
        "$store: a fatal error, memory: written as by PHP, and free" => function () use ($fpm, $locks) {
            $id = id();
            foreach (['fatal', 'memory'] as $end) {
                $fpm->get('session', ['do' => $end], "PHPSESSID=$id");
            }
            equal(['n' => 2], stored($fpm, $id), 'session');
            equal(false, $locks->isLocked(key($id)), 'free');
        },
        "$store: a session that is destroyed or renamed while others wait does not come back" => function () use ($fpm, $folder, $store) {
            $id = id();
            $fpm->get('session', [], "PHPSESSID=$id");
            $destroying = inside($fpm, $id, "$folder/$store-destroy", ['do' => 'destroy']);
            $next = $fpm->send('session', ['session_use_strict_mode' => 1], "PHPSESSID=$id");
            until(fn() => waiters(key($id)) === 1);
            touch("$folder/$store-destroy");
            $destroying->body();
            [$line, $data] = explode("\n", $next->body());
            equal([false, '[]'], [$line === "started $id", $data], 'a new session');

            $fpm->get('session', [], "PHPSESSID=$id");
            $new = explode("\n", $fpm->get('session', ['do' => 'regenerate'], "PHPSESSID=$id"))[2];
            equal(['n' => 2], stored($fpm, $new), 'regenerated');
            equal([], stored($fpm, $id), 'old');
        },
    ];
}

$tests = [];
foreach ($stores as $store => $ini) {
    mkdir("$folder/$store");
    $fpm = new Fpm("$folder/$store", 52, [], $ini + $settings);
    $tests += tests($store, $fpm, $locks, $folder);
}
run($tests + [
    'session.auto_start' => function () use ($folder, $stores, $settings) {
        mkdir("$folder/auto");
        $fpm = new Fpm("$folder/auto", 8, [], ['session.auto_start' => '1'] + $stores['files'] + $settings);
        $id = id();
        $requests = array_map(fn($i) => $fpm->send('session', ['number' => $i], "PHPSESSID=$id"), range(0, 19));
        array_walk($requests, fn($request) => $request->body());
        $session = json_decode(explode("\n", $fpm->get('session', [], "PHPSESSID=$id"))[1], true);
        sort($session['order']);
        equal(['n' => 20, 'order' => range(0, 19)], $session, 'session');
        $fpm->stop();
    },
    'no record is left' => fn() => equal(0, stat()['requests_used'], 'records in use'),
    'the segment is sound' => fn() => equal('', lockctl('verify', getenv('SEGMENT'))),
]);
