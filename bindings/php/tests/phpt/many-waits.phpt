--TEST--
ten thousand locks of four processes, two of which wait with handlers of signals: nothing is lost
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$file = tempnam(sys_get_temp_dir(), 'many');
file_put_contents($file, '0');
$gate = $locks->exclusive('gate');
$children = [];
for ($i = 0; $i < 4; $i++) {
    $children[] = new Child(function () use ($locks, $file, $i) {
        pcntl_async_signals($i % 2 === 0);
        $locks->shared('gate', 60)->release();
        for ($n = 0; $n < 2500; $n++) {
            $hold = $locks->exclusive('counter', 60, renew: $n % 2 === 0);
            file_put_contents($file, (string)(1 + (int)file_get_contents($file)));
            $hold->release();
        }
    });
}
until(fn() => requests($locks) === 5);
$gate->release();
var_dump(array_map(fn($child) => $child->wait(), $children), file_get_contents($file), requests($locks));
unlink($file);
?>
--EXPECT--
array(4) {
  [0]=>
  int(0)
  [1]=>
  int(0)
  [2]=>
  int(0)
  [3]=>
  int(0)
}
string(5) "10000"
int(0)
