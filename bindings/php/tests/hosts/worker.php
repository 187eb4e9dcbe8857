<?php
// SPDX-License-Identifier: MIT
// Adds to the file "count" under a global key, by the argument or by the segment, and writes each token to the file "log".

use Lockshm\Locks;

[, $host, $folder, $times, $key] = $argv;
$locks = Locks::open($host);
for ($i = 0; $i < (int)$times; $i++) {
    $hold = $locks->exclusive($key, 120, global: $key === 'count');
    $n = (int)file_get_contents("$folder/count");
    file_put_contents("$folder/log", $hold->token() . "\n", FILE_APPEND);
    file_put_contents("$folder/count", (string)($n + 1));
    $hold->release();
}
