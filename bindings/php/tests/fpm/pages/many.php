<?php
// SPDX-License-Identifier: MIT
// Many locks in one worker: what grew.

use Lockshm\Locks;

$locks = Locks::open();
$descriptors = fn() => count(scandir('/proc/self/fd'));
$pages = fn() => (int)explode(' ', file_get_contents('/proc/self/statm'))[1];
$round = function (int $n) use ($locks) {
    for ($i = 0; $i < $n; $i++) {
        $hold = $locks->exclusive("key $i");
        $i % 2 ? $hold->release() : $hold = null;
        $locks->tryShared('shared', lease: null)->release();
        $i % 1000 ?: $locks->once('once', 0.001, fn() => $i);
    }
    unset($hold);
};
$round(20000);
gc_collect_cycles();
$before = [memory_get_usage(), $descriptors(), $pages()];
$round((int)$_GET['n']);
gc_collect_cycles();
echo json_encode(['memory' => memory_get_usage() - $before[0], 'descriptors' => $descriptors() - $before[1], 'pages' => $pages() - $before[2]]);
