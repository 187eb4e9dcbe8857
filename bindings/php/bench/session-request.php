<?php
// SPDX-License-Identifier: MIT
// The request of the bench of sessions: counts in the session, and works for a while in between.

ini_set('display_errors', '0');
if (!session_start()) {
    exit('refused');
}
$count = $_SESSION['count'] ?? 0;
usleep((int) $_SERVER['WORK_US']);
$_SESSION['count'] = $count + 1;
session_write_close();
echo 'ok ', $count + 1;
