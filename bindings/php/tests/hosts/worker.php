<?php
// SPDX-License-Identifier: MIT
// Adds to the file "count" under a global key, and writes each token to the file "log".

use Lockshm\Locks;

[, $host, $folder, $times] = $argv;
$locks = Locks::open($host);
for ($i = 0; $i < (int)$times; $i++) {
    $hold = $locks->exclusive('count', 120, global: true);
    $n = (int)file_get_contents("$folder/count");
    file_put_contents("$folder/log", $hold->token() . "\n", FILE_APPEND);
    file_put_contents("$folder/count", (string)($n + 1));
    $hold->release();
}
