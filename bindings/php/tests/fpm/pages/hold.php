<?php
// SPDX-License-Identifier: MIT
// Take a key, and end the request in the way that the query names.

use Lockshm\Locks;

$locks = Locks::open();
$hold = $locks->exclusive($_GET['key'], 60, lease: isset($_GET['lease']) ? (float)$_GET['lease'] : 30.0, global: isset($_GET['global']));
$GLOBALS['leak'] = [&$GLOBALS['leak'], $hold];
echo getmypid(), "\n";

switch ($_GET['end']) {
    case 'leak':
        break;
    case 'exit':
        exit;
    case 'exception':
        throw new DomainException('not caught');
    case 'fatal':
        eval('class Broken implements Iterator {}');
    case 'memory':
        for ($memory = []; ; ) {
            $memory[] = str_repeat('x', 1 << 20);
        }
    case 'time':
        set_time_limit(1);
        for (;;);
    case 'buffer':
        ob_start(fn() => throw new DomainException('from the output buffer'));
        break;
    case 'destructor':
        $GLOBALS['last'] = new class {
            public function __destruct()
            {
                throw new DomainException('from a destructor');
            }
        };
        break;
    case 'wait':
        touch($_GET['go'] . '.inside');
        while (!file_exists($_GET['go'])) {
            usleep(1000);
        }
        try {
            echo $hold->check() ? 'held' : 'late';
        } catch (Lockshm\LostException) {
            echo 'lost';
        }
        break;
}
