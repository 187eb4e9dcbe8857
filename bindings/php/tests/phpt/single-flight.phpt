--TEST--
singleFlight: one fills, the others find it; the filler killed half way: exactly the next goes on
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$store = tempnam(sys_get_temp_dir(), 'flight');
$log = tempnam(sys_get_temp_dir(), 'flight');
$look = fn() => file_get_contents($store) ?: null;
$fill = function (string $value) use ($store, $log) {
    file_put_contents($log, "filled\n", FILE_APPEND);
    file_put_contents($store, $value);
    return $value;
};

$dying = new Child(function ($socket) use ($locks, $look) {
    $locks->singleFlight('page', $look, function () use ($socket) {
        fwrite($socket, "fills\n");
        posix_kill(getmypid(), SIGKILL);
    });
});
$dying->line();
$hold = null;
$children = [];
for ($i = 0; $i < 8; $i++) {
    $children[] = new Child(function ($socket) use ($locks, $look, $fill, $i) {
        fwrite($socket, $locks->singleFlight('page', $look, fn() => $fill("by one of them"), 60) . "\n");
    });
}
foreach ($children as $child) {
    echo $child->line(), "\n";
    $child->wait();
}
var_dump($dying->wait(), file_get_contents($log));

var_dump($locks->singleFlight('page', $look, fn() => 'not called'));
unlink($store);
touch($store);
attempt(fn() => $locks->singleFlight('page', $look, fn() => throw new DomainException('fill')));
attempt(fn() => $locks->singleFlight('page', fn() => throw new DomainException('look'), fn() => 1));
var_dump($locks->isLocked('page'), $locks->singleFlight('page', $look, fn() => null));
$other = holder($locks, 'page');
attempt(fn() => $locks->singleFlight('page', $look, fn() => 1, 0.01));
var_dump($locks->singleFlight('page', $look, fn() => 1, 0.01, stale: fn(Lockshm\TimeoutException $error) => 'stale, ' . ($error->holder->pid === $other->pid ? 'held' : '?')));
attempt(fn() => $locks->singleFlight('page', $look, fn() => 1, 0, stale: fn() => throw new DomainException('stale')));
$other->kill();
unlink($store);
unlink($log);
?>
--EXPECT--
by one of them
by one of them
by one of them
by one of them
by one of them
by one of them
by one of them
by one of them
int(-9)
string(7) "filled
"
string(14) "by one of them"
DomainException: fill
DomainException: look
bool(false)
NULL
Lockshm\TimeoutException: 'page': not granted in 0.01 s: held exclusive by pid N (php) for N s
string(11) "stale, held"
DomainException: stale
