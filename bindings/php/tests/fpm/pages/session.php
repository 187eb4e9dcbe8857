<?php
// SPDX-License-Identifier: MIT
// A request with a session; the query says what it does.

ob_start(); // headers are still to come
foreach (['lockshm_session_wait', 'session_use_strict_mode', 'memory_limit'] as $setting) {
    isset($_GET[$setting]) && ini_set(preg_replace('/_/', '.', $setting, $setting === 'memory_limit' ? 0 : 1), $_GET[$setting]);
}
set_time_limit((int)($_GET['limit'] ?? 0));
$started = session_status() === PHP_SESSION_ACTIVE || session_start(['read_and_close' => isset($_GET['read'])]);
echo $started ? 'started ' : 'refused ', session_id(), "\n";
if (!$started) {
    $_SESSION['n'] = 'lost';
    exit;
}
echo json_encode($_SESSION), "\n";
$_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
isset($_GET['number']) && $_SESSION['order'][] = (int)$_GET['number'];

switch ($_GET['do'] ?? '') {
    case 'wait':
        while (!file_exists($_GET['go'])) {
            usleep(1000);
        }
        break;
    case 'memory':
        str_repeat('x', 1 << 40);
    case 'fatal':
        eval('class Broken implements Iterator {}');
    case 'destroy':
        while (!file_exists($_GET['go'])) {
            usleep(1000);
        }
        session_destroy();
        break;
    case 'regenerate':
        session_regenerate_id(true);
        echo session_id(), "\n";
        break;
    case 'close':
        session_write_close();
        echo json_encode(Lockshm\Locks::open()->isLocked('session:' . sha1(session_id()))), "\n";
        break;
}
