<?php
// SPDX-License-Identifier: MIT
// Wait for a key, under a time limit if there is one; write the order of the grants.

set_time_limit((int)($_GET['limit'] ?? 0));
$hold = Lockshm\Locks::open()->exclusive($_GET['key'], isset($_GET['timeout']) ? (float)$_GET['timeout'] : null, lease: null, global: isset($_GET['global']));
isset($_GET['log']) && file_put_contents($_GET['log'], $_GET['number'] . "\n", FILE_APPEND);
echo 'granted';
