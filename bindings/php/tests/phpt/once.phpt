--TEST--
once: its value and counter; exit, fatal error and loss inside
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
var_dump($locks->once('job', 600, fn() => 'value', result: $result), $result);
var_dump($locks->once('job', 600, fn() => 'again', result: $result), $result, $locks->skipped(), $locks->lastHolder()->state);
var_dump($locks->lastHolder()->expiresIn > 500);

foreach (['exit' => fn() => exit(0), 'memory' => fn() => str_repeat('x', 1 << 40)] as $how => $work) {
    $child = new Child(function () use ($locks, $how, $work) {
        ini_set('display_errors', '0');
        $locks->once($how, 600, $work);
    });
    $child->wait();
    echo "$how: ", $locks->isLocked($how) ? $locks->holders($how)[0]->state : 'free', "\n";
}

$running = holder($locks, 'runs', tag: 'slow');
var_dump($locks->once('runs', 1, fn() => 1), $locks->lastHolder()->tag);
$running->kill();
$running->wait();
set_error_handler(fn($level, $text) => print("$text\n"));
$end = fn($key) => fn() => $locks->end($key, $locks->holders($key)[0]->token);
var_dump($locks->once('lost', 600, $end('lost')), $locks->singleFlight('lost', fn() => null, $end('lost')));
var_dump($locks->seat('lost', fn($hold) => $end('lost')()));
?>
--EXPECT--
bool(true)
string(5) "value"
bool(false)
string(5) "value"
int(1)
string(7) "cooling"
bool(true)
exit: cooling
memory: cooling
bool(false)
string(4) "slow"
Lockshm\Locks::once(): 'lost' was lost while the callable ran: another process has or had the key
Lockshm\Locks::singleFlight(): 'lost' was lost while the callable ran: another process has or had the key
bool(true)
bool(true)
Lockshm\Locks::seat(): 'lost' was lost while the callable ran: another process has or had the key
bool(true)
