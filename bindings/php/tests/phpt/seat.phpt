--TEST--
seat: exactly one process is inside, and another takes over when it is killed
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$log = tempnam(sys_get_temp_dir(), 'seat');
$children = [];
for ($i = 0; $i < 4; $i++) {
    $children[] = $child = new Child(function ($socket) use ($locks, $log) {
        pcntl_async_signals(true);
        pcntl_signal(SIGTERM, fn() => exit(5));
        $locks->seat('scheduler', function (Lockshm\Hold $hold) use ($log) {
            file_put_contents($log, getmypid() . "\n", FILE_APPEND);
            while ($hold->check()) {
                usleep(1000);
            }
        });
    });
    until(fn() => requests($locks) === $i + 1);
}
foreach ([0, 1] as $i) {
    until(fn() => count(file($log)) === $i + 1);
    $children[$i]->kill();
    $children[$i]->wait();
}
until(fn() => count(file($log)) === 3);
$children[3]->kill(SIGTERM);
var_dump($children[3]->wait());
$children[2]->kill(SIGTERM);
var_dump($children[2]->wait());
var_dump(array_map(trim(...), file($log)) == array_map(fn($child) => $child->pid, array_slice($children, 0, 3)));
var_dump($locks->seat('scheduler', fn($hold) => $hold->key(), lease: null));
attempt(fn() => $locks->seat('scheduler', fn() => throw new DomainException('work')));
var_dump($locks->isLocked('scheduler'));
unlink($log);
?>
--EXPECT--
int(5)
int(5)
bool(true)
string(9) "scheduler"
DomainException: work
bool(false)
