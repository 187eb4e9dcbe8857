<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Testing;

/**
 * A child process made by fork(), with a channel of lines to it.
 *
 * The function runs in the child and gets the child's end of the channel.  The child ends without the rest of the test
 * and exits with 0, or with 1 if the function threw.
 */
final class Child
{
    private const WATCHDOG = 60;

    /** @var array<int, self> */
    private static array $running = [];

    /** @param resource $channel */
    private function __construct(private $channel, public readonly int $pid)
    {
    }

    /** @param callable(self): void $fn */
    public static function run(callable $fn): self
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid < 0) {
            throw new \RuntimeException('fork: '.pcntl_strerror(pcntl_get_last_error()));
        }
        if ($pid > 0) {
            fclose($theirs);
            if (!self::$running) {
                register_shutdown_function([self::class, 'killAll']);
            }

            return self::$running[$pid] = new self($ours, $pid);
        }
        fclose($ours);
        self::$running = [];
        self::finish($fn, new self($theirs, getmypid()));
    }

    /** Ends the child at once: no output buffer, shutdown function or destructor of the test runs in it. */
    private static function finish(callable $fn, self $channel): never
    {
        try {
            $fn($channel);
            $channel->send('done');
        } catch (\Throwable $error) {
            $channel->send('failed: '.strtr((string) $error, "\n", ' '));
        }
        posix_kill(getmypid(), SIGKILL);
        exit(1);
    }

    public function send(string $line): void
    {
        fwrite($this->channel, $line."\n");
    }

    /** The next line from the other end; an exception if there is none within a minute, or another one was expected. */
    public function receive(?string $expected = null): string
    {
        stream_set_timeout($this->channel, self::WATCHDOG);
        $line = fgets($this->channel);
        if (false === $line) {
            $expected ??= 'a line';
            throw new \RuntimeException("The other process ended, or is silent for a minute, where $expected was expected.");
        }
        $line = rtrim($line, "\n");
        if (null !== $expected && $expected !== $line) {
            throw new \RuntimeException("'$line' came where '$expected' was expected.");
        }

        return $line;
    }

    public function kill(int $signal = SIGKILL): void
    {
        posix_kill($this->pid, $signal);
        if (SIGKILL === $signal) {
            pcntl_waitpid($this->pid, $status);
            unset(self::$running[$this->pid]);
        }
    }

    /** Waits until the function in the child has returned, and the child has ended. */
    public function end(): void
    {
        $this->receive('done');
        pcntl_waitpid($this->pid, $status);
        unset(self::$running[$this->pid]);
    }

    /** Waits until the child waits for $key, as seen by the segment. */
    public function awaitWaiting(string $segment, string $key): void
    {
        $until = hrtime(true) + self::WATCHDOG * 1_000_000_000;
        while (!\in_array($this->pid, self::waiters($segment, $key), true)) {
            if (hrtime(true) > $until) {
                throw new \RuntimeException("Process {$this->pid} does not wait for '$key' within a minute.");
            }
            usleep(1000);
        }
    }

    /** @return list<int> pids */
    private static function waiters(string $segment, string $key): array
    {
        $command = getenv('LOCKCTL') ?: 'lockctl';
        exec("$command show --porcelain ".escapeshellarg($segment).' '.escapeshellarg($key).' 2>&1', $lines, $status);
        if (0 !== $status) {
            throw new \RuntimeException('lockctl show: '.implode(' ', $lines));
        }
        $waiters = [];
        foreach ($lines as $line) {
            $fields = explode("\t", $line);
            if ('waiter' === $fields[0]) {
                $waiters[] = (int) $fields[4];
            }
        }

        return $waiters;
    }

    /** @internal */
    public static function killAll(): void
    {
        foreach (self::$running as $child) {
            $child->kill();
        }
    }
}
