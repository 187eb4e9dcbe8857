--TEST--
a hold ends with its object, a cycle of objects, and the script; a cooldown and outlive keep the key closed
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$hold = $locks->exclusive('a');
$copy = $hold;
unset($hold);
var_dump($locks->isLocked('a'));
unset($copy);
var_dump($locks->isLocked('a'));
if ($locks->tryExclusive('a')) {
    var_dump($locks->isLocked('a'));
}
if ($hold = $locks->tryExclusive('a')) {
    var_dump($locks->isLocked('a'));
}
unset($hold);
$cycle = new stdClass;
$cycle->self = $cycle;
$cycle->hold = $locks->exclusive('a');
unset($cycle);
var_dump($locks->isLocked('a'), gc_collect_cycles() > 0, $locks->isLocked('a'));
attempt(function () use ($locks) {
    $hold = $locks->exclusive('a');
    throw new Exception('out');
});
var_dump($locks->isLocked('a'));

$locks->exclusive('paced')->release(cooldown: 60);
var_dump($locks->isLocked('paced'), $locks->tryShared('paced'), $locks->lastHolder()->state, $locks->lastHolder()->expiresIn > 50);
$locks->exclusive('cool', lease: 60, outlive: true);
var_dump($locks->isLocked('cool'), $locks->holders('cool')[0]->state, $locks->holders('cool')[0]->expiresIn > 50);
$locks->exclusive('short', lease: 60, outlive: true)->release();
var_dump($locks->isLocked('short'));

foreach (['leak', 'exit', 'fatal', 'memory', 'exception', 'outlive', 'outlive fatal', 'later', 'later fatal', 'never'] as $how) {
    $child = new Child(function () use ($locks, $how) {
        ini_set('display_errors', '0');
        ini_set('memory_limit', '16M');
        [$kind, $end] = explode(' ', "$how $how");
        $lease = in_array($kind, ['later', 'never'], true) ? null : 60;
        $GLOBALS['leak'] = $locks->exclusive($how, lease: $lease, outlive: in_array($kind, ['outlive', 'later', 'never'], true));
        $kind === 'later' && $GLOBALS['leak']->renew(60); // it has a lease now
        $GLOBALS['cycle'] = [&$GLOBALS['cycle'], $GLOBALS['leak']];
        match ($end) {
            'exit' => exit(3),
            'fatal' => eval('class Broken implements Iterator {}'),
            'memory' => str_repeat('x', 32 << 20),
            'exception' => throw new Exception('not caught'),
            default => null,
        };
    });
    echo "$how: ", $child->wait(), ', ', $locks->isLocked($how) ? $locks->holders($how)[0]->state : 'free', "\n";
}
?>
--EXPECT--
bool(true)
bool(false)
bool(false)
bool(true)
bool(true)
bool(true)
bool(false)
Exception: out
bool(false)
bool(true)
NULL
string(7) "cooling"
bool(true)
bool(true)
string(7) "cooling"
bool(true)
bool(false)
leak: 0, free
exit: 3, free
fatal: 255, free
memory: 255, free
exception: 255, free
outlive: 0, cooling
outlive fatal: 255, cooling
later: 0, cooling
later fatal: 255, free
never: 0, free
