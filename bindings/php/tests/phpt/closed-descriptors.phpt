--TEST--
a process that has closed all descriptors waits on
--EXTENSIONS--
lockshm
posix
pcntl
ffi
--INI--
ffi.enable=1
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$before = $locks->exclusive('before');
$hold = $locks->exclusive('closed');
$child = new Child(function ($socket) use ($locks) {
    pcntl_async_signals(true); // a wait on the loop
    pcntl_signal(SIGUSR1, fn() => null);
    try {
        $locks->exclusive('before', 0.01);
    } catch (Lockshm\TimeoutException) {
        // It has a loop now.
    }
    fwrite($socket, "closes\n");
    $libc = FFI::cdef('int close(int);');
    for ($fd = 3; $fd < 256; $fd++) {
        $libc->close($fd);
    }
    $locks->exclusive('closed', 200)->release();
});
$child->line();
until(fn() => requests($locks) === 3);
$hold->release();
echo $child->wait(), "\n";
?>
--EXPECT--
0
