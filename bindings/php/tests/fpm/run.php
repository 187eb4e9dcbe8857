<?php
// SPDX-License-Identifier: MIT
// Requests of a real php-fpm that end in every way, or are killed, stopped, reloaded.

declare(strict_types=1);

namespace Lockshm\Tests;

use Lockshm\Locks;

require dirname(__DIR__) . '/support/fpm.php';

$folder = getenv('WORK');
$locks = Locks::open(getenv('SEGMENT'));
register_shutdown_function(fn() => Locks::destroy(getenv('SEGMENT')));
mkdir("$folder/pool");
$fpm = new Fpm("$folder/pool", 24);

$ends = [];
foreach (['leak', 'exit', 'exception', 'fatal', 'memory', 'time', 'buffer', 'destructor'] as $end) {
    $ends["a hold ends with the request: $end"] = function () use ($fpm, $locks, $end) {
        $worker = (int)$fpm->get('hold', ['key' => $end, 'end' => $end]);
        $hold = $locks->exclusive($end, 60);
        equal(true, $worker > 0 && posix_kill($worker, 0), 'the worker lives');
        $hold->release();
        equal(0, stat()['requests_used'], 'records in use');
    };
}

run($ends + [
    'a wait ends at the time limit and leaves nothing' => function () use ($fpm, $locks) {
        $hold = $locks->exclusive('limit');
        $body = $fpm->get('wait', ['key' => 'limit', 'limit' => 1]);
        equal(true, str_contains($body, 'Maximum execution time of 1 second exceeded'), $body);
        equal(1, stat()['requests_used'], 'records in use');
        equal(true, $hold->release(), 'in time');
    },
    'the worker that holds is killed: the next request goes on' => function () use ($fpm, $locks, $folder) {
        $dying = $fpm->send('hold', ['key' => 'killed', 'end' => 'wait', 'go' => "$folder/killed", 'lease' => 3600]);
        until(fn() => file_exists("$folder/killed.inside"));
        $next = $fpm->send('wait', ['key' => 'killed']);
        until(fn() => waiters('killed') === 1);
        posix_kill($locks->holders('killed')[0]->pid, SIGKILL);
        equal('granted', $next->body(), 'next');
        equal('', $dying->answer(), 'killed');
    },
    'a waiting worker is killed: the queue goes on' => function () use ($fpm, $locks) {
        $hold = $locks->exclusive('queue');
        $dying = $fpm->send('wait', ['key' => 'queue']);
        until(fn() => waiters('queue') === 1);
        $next = $fpm->send('wait', ['key' => 'queue']);
        until(fn() => waiters('queue') === 2);
        posix_kill(json_decode(lockctl('show', getenv('SEGMENT'), 'queue', '--json'), true)['waiters'][0]['pid'], SIGKILL);
        $hold->release();
        equal('granted', $next->body(), 'next');
        equal('', $dying->answer(), 'killed');
    },
    'a stopped holder whose lease ended gets LostException' => function () use ($fpm, $locks, $folder) {
        $stopped = $fpm->send('hold', ['key' => 'stopped', 'end' => 'wait', 'go' => "$folder/stopped", 'lease' => 0.3]);
        until(fn() => file_exists("$folder/stopped.inside"));
        $worker = $locks->holders('stopped')[0]->pid;
        posix_kill($worker, SIGSTOP);
        $locks->exclusive('stopped', 60)->release();
        touch("$folder/stopped");
        posix_kill($worker, SIGCONT);
        equal("$worker\nlost", $stopped->body(), 'the stopped one');
    },
    'twenty workers wait, and are granted in the order of arrival' => function () use ($fpm, $locks, $folder) {
        $hold = $locks->exclusive('order');
        $requests = [];
        for ($i = 0; $i < 20; $i++) {
            $requests[] = $fpm->send('wait', ['key' => 'order', 'log' => "$folder/order", 'number' => $i]);
            until(fn() => waiters('order') === $i + 1);
        }
        $hold->release();
        foreach ($requests as $request) {
            equal('granted', $request->body(), 'a request');
        }
        equal(range(0, 19), array_map(intval(...), file("$folder/order")), 'order');
    },
    'a reload ends no hold and no wait' => function () use ($fpm, $locks, $folder) {
        $old = $fpm->send('hold', ['key' => 'reload', 'end' => 'wait', 'go' => "$folder/reload"]);
        until(fn() => file_exists("$folder/reload.inside"));
        $waiting = $fpm->send('wait', ['key' => 'reload']);
        until(fn() => waiters('reload') === 1);
        $worker = $locks->holders('reload')[0]->pid;
        posix_kill($fpm->master(), SIGUSR2);
        until(fn() => str_contains(file_get_contents("$fpm->folder/fpm.log"), 'Reloading in progress'));
        touch("$folder/reload");
        equal("$worker\nheld", $old->body(), 'the request of before');
        equal('granted', $waiting->body(), 'the wait of before');
        until(fn() => !posix_kill($worker, 0), 'the end of the old workers');
        equal('granted', $fpm->get('wait', ['key' => 'reload']), 'a request of after');
    },
    'request_terminate_timeout kills the worker: its hold ends' => function () use ($locks, $folder) {
        mkdir("$folder/killed-pool");
        $fpm = new Fpm("$folder/killed-pool", 1, ['request_terminate_timeout' => '1s']);
        $request = $fpm->send('hold', ['key' => 'terminated', 'end' => 'wait', 'go' => "$folder/terminated", 'lease' => 3600]);
        until(fn() => file_exists("$folder/terminated.inside"));
        $locks->exclusive('terminated', 60)->release();
        equal('', $request->answer(), 'the request');
        $fpm->stop();
    },
    'workers that end after some requests leave no owners' => function () use ($locks, $folder) {
        mkdir("$folder/short");
        $fpm = new Fpm("$folder/short", 2, ['pm.max_requests' => '5']);
        $workers = [];
        for ($i = 0; $i < 60; $i++) {
            $workers[(int)$fpm->get('hold', ['key' => 'short', 'end' => 'leak'])] = true;
        }
        equal(true, count($workers) >= 12, count($workers) . ' workers');
        $fpm->stop();
        until(function () {
            lockctl('sweep', getenv('SEGMENT'));
            return stat()['owners_used'] - stat()['owners_dead'] <= 2 * 24 + 2;
        }, 'the end of dead owners');
        equal(0, stat()['requests_used'], 'records in use');
    },
    'many locks: memory, descriptors and records do not grow' => function () use ($fpm, $locks) {
        $n = getenv('LONG') ? 1_000_000 : 100_000;
        $grown = json_decode($fpm->get('many', ['n' => $n]), true);
        equal(true, is_array($grown), 'an answer');
        equal(0, $grown['descriptors'], 'descriptors');
        equal(true, $grown['memory'] < 16384, "memory of the request: $grown[memory]");
        equal(true, $grown['pages'] < 1024, "resident pages: $grown[pages]");
        $locks->exclusive('once', 60)->release();
        equal(0, stat()['requests_used'], 'records in use');
    },
    'the segment is sound' => fn() => equal('', lockctl('verify', getenv('SEGMENT'))),
]);
