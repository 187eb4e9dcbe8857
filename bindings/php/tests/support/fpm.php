<?php
// SPDX-License-Identifier: MIT
// A php-fpm of the test's own, and requests to it.

declare(strict_types=1);

namespace Lockshm\Tests;

pcntl_async_signals(true);
pcntl_signal(SIGTERM, fn() => exit(1)); // ends what was started
pcntl_signal(SIGINT, fn() => exit(1));

/** A pool of workers on a socket in a folder of its own. */
final class Fpm
{
    /** @var resource */
    private $process;
    public readonly string $socket;

    /** @param array<string, string> $pool lines of the pool's section, @param array<string, string> $ini */
    public function __construct(public readonly string $folder, int $workers, array $pool = [], array $ini = [])
    {
        $this->socket = "$folder/fpm.sock";
        file_put_contents("$folder/fpm.conf", $this->config($workers, $pool));
        $command = [getenv('PHP_FPM'), '-n', '-F', '-O', '-y', "$folder/fpm.conf", '-d', 'extension=' . getenv('EXTENSION'), '-d', 'extension=posix'];
        foreach ($ini + self::ini($folder) as $name => $value) {
            array_push($command, '-d', trim($name) . "=$value"); // "extension" may be there twice
        }
        if (posix_geteuid() === 0) {
            $command[] = '-R';
        }
        $this->process = proc_open($command, [['file', '/dev/null', 'r'], ['file', "$folder/fpm.log", 'a'], ['file', "$folder/fpm.log", 'a']], $pipes);
        until(fn() => file_exists($this->socket) && @stream_socket_client("unix://$this->socket"));
        register_shutdown_function($this->stop(...));
    }

    /** @return array<string, string> */
    private static function ini(string $folder): array
    {
        return [
            'lockshm.segment' => getenv('SEGMENT'),
            'session.save_path' => $folder,
            'session.cache_limiter' => '',
            'display_errors' => '1',
            'html_errors' => '0',
            'opcache.enable' => '0',
        ];
    }

    /** @param array<string, string> $pool */
    private function config(int $workers, array $pool): string
    {
        $user = posix_getpwuid(posix_geteuid())['name'];
        $group = posix_getgrgid(posix_getegid())['name'];
        $lines = $pool + ['listen' => $this->socket, 'pm' => 'static', 'pm.max_children' => (string)$workers, 'listen.backlog' => '1024'];
        if (posix_geteuid() === 0) {
            $lines += ['user' => $user, 'group' => $group];
        }
        $text = "[global]\nerror_log = $this->folder/fpm.log\npid = $this->folder/fpm.pid\nprocess_control_timeout = 60s\n[www]\n";
        foreach ($lines as $name => $value) {
            $text .= "$name = $value\n";
        }
        return $text;
    }

    public function master(): int
    {
        return (int)file_get_contents("$this->folder/fpm.pid");
    }

    /** @param array<string, scalar> $query */
    public function send(string $page, array $query = [], string $cookie = ''): Request
    {
        return new Request($this->socket, $page, http_build_query($query), $cookie);
    }

    /** @param array<string, scalar> $query */
    public function get(string $page, array $query = [], string $cookie = ''): string
    {
        return $this->send($page, $query, $cookie)->body();
    }

    public function stop(): void
    {
        if (!is_resource($this->process)) {
            return;
        }
        $master = proc_get_status($this->process)['pid'];
        foreach (explode(' ', trim((string)@file_get_contents("/proc/$master/task/$master/children"))) as $worker) {
            (int)$worker && posix_kill((int)$worker, SIGCONT);
        }
        posix_kill($master, SIGTERM);
        proc_close($this->process);
    }
}

/** One request, by the FastCGI protocol. */
final class Request
{
    private const BEGIN = 1, END = 3, PARAMS = 4, STDIN = 5, STDOUT = 6, STDERR = 7;
    /** @var resource */
    private $connection;
    private ?string $answer = null;
    public string $errors = '';

    public function __construct(string $socket, string $page, string $query, string $cookie)
    {
        $this->connection = stream_socket_client("unix://$socket", $code, $message, 60);
        stream_set_timeout($this->connection, 120);
        $this->write(self::BEGIN, pack('nCx5', 1, 0));
        $params = [
            'SCRIPT_FILENAME' => dirname(__DIR__) . "/fpm/pages/$page.php",
            'SCRIPT_NAME' => "/$page.php",
            'REQUEST_URI' => "/$page.php?$query",
            'REQUEST_METHOD' => 'GET',
            'QUERY_STRING' => $query,
            'HTTP_COOKIE' => $cookie,
            'SERVER_PROTOCOL' => 'HTTP/1.1',
        ];
        $text = '';
        foreach ($params as $name => $value) {
            $text .= self::length($name) . self::length($value) . $name . $value;
        }
        $this->write(self::PARAMS, $text);
        $this->write(self::PARAMS, '');
        $this->write(self::STDIN, '');
    }

    private static function length(string $text): string
    {
        return strlen($text) < 128 ? chr(strlen($text)) : pack('N', strlen($text) | 0x80000000);
    }

    private function write(int $type, string $content): void
    {
        fwrite($this->connection, pack('CCnnCx', 1, $type, 1, strlen($content), 0) . $content);
    }

    private function bytes(int $length): string
    {
        return $length ? (string)stream_get_contents($this->connection, $length) : '';
    }

    /** Status line, headers, body; "" = the worker was killed.  Waits for the end of the request. */
    public function answer(): string
    {
        if ($this->answer !== null) {
            return $this->answer;
        }
        $this->answer = '';
        while (strlen($header = $this->bytes(8)) === 8) {
            ['type' => $type, 'length' => $length, 'padding' => $padding] = unpack('Cversion/Ctype/nid/nlength/Cpadding', $header);
            $content = $this->bytes($length);
            $this->bytes($padding);
            if ($type === self::STDOUT) {
                $this->answer .= $content;
            } elseif ($type === self::STDERR) {
                $this->errors .= $content;
            } elseif ($type === self::END) {
                break;
            }
        }
        fclose($this->connection);
        return $this->answer;
    }

    public function body(): string
    {
        return trim(explode("\r\n\r\n", $this->answer(), 2)[1] ?? '');
    }
}

/** Wait for a condition; a minute is far more than it takes. */
function until(callable $condition, string $what = 'a condition'): void
{
    for ($end = hrtime(true) + 60_000_000_000; hrtime(true) < $end; usleep(1000)) {
        if ($condition()) {
            return;
        }
    }
    throw new \RuntimeException("$what did not come true in a minute");
}

/** The output of a command of lockctl. */
function lockctl(string ...$arguments): string
{
    exec(implode(' ', array_map(escapeshellarg(...), [getenv('LOCKCTL') ?: 'lockctl', ...$arguments])) . ' 2>&1', $lines);
    return implode("\n", $lines);
}

/** @return array<string, mixed> */
function stat(): array
{
    return json_decode(lockctl('stat', getenv('SEGMENT'), '--json'), true);
}

function waiters(string $key): int
{
    return count(json_decode(lockctl('show', getenv('SEGMENT'), $key, '--json'), true)['waiters'] ?? []);
}

function equal(mixed $expected, mixed $value, string $what = ''): void
{
    if ($expected !== $value) {
        throw new \RuntimeException("$what: expected " . var_export($expected, true) . ', got ' . var_export($value, true));
    }
}

/** @param array<string, callable> $tests; prints the failures and the sum; exits. */
function run(array $tests): never
{
    $ran = $failed = 0;
    $only = getenv('ONLY');
    foreach ($tests as $name => $test) {
        if ($only && !str_contains($name, $only)) {
            continue;
        }
        $ran++;
        try {
            $test();
        } catch (\Throwable $error) {
            $failed++;
            echo "failed: $name: ", $error->getMessage(), ' (', basename($error->getFile()), ':', $error->getLine(), ")\n";
        }
    }
    echo $ran - $failed, " passed, $failed failed, 0 skipped\n";
    exit($failed ? 1 : 0);
}
