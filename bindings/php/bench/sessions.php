<?php
// SPDX-License-Identifier: MIT
// Prints how parallel requests of one user fare with one save handler.  Started by run.sh for each:
// php sessions.php TITLE FPM-SOCKET REQUESTS WORK-US ROUNDS

declare(strict_types=1);

require __DIR__.'/Fcgi.php';
[, $title, $socket, $requests, $work, $rounds] = $argv;
$script = __DIR__.'/session-request.php';

/** @return array{float, list<float>, list<string>} seconds in all, seconds of each, answers */
function round_of(string $socket, string $script, string $id, int $requests, string $work): array
{
    $start = hrtime(true);
    $running = $times = $answers = [];
    for ($i = 0; $i < $requests; ++$i) {
        $running[$i] = Fcgi::request($socket, ['REQUEST_METHOD' => 'GET', 'SCRIPT_FILENAME' => $script,
            'HTTP_COOKIE' => "PHPSESSID=$id", 'WORK_US' => $work]);
    }
    while ($running) {
        $ready = array_map(static fn (Fcgi $request) => $request->connection, $running);
        $none = [];
        if (!stream_select($ready, $none, $none, 120)) {
            throw new RuntimeException('no answer within two minutes');
        }
        foreach (array_keys($ready) as $i) {
            if ($running[$i]->receive()) {
                $times[] = (hrtime(true) - $start) / 1e9;
                $answers[] = $running[$i]->body();
                unset($running[$i]);
            }
        }
    }

    return [(hrtime(true) - $start) / 1e9, $times, $answers];
}

$all = $times = [];
$refused = $lost = $failed = 0;
for ($round = 0; $round < $rounds; ++$round) {
    $id = bin2hex(random_bytes(16));
    round_of($socket, $script, $id, 1, '0');
    [$seconds, $each, $answers] = round_of($socket, $script, $id, (int) $requests, $work);
    [, , [$last]] = round_of($socket, $script, $id, 1, '0');
    $done = count(preg_grep('~^ok~', $answers));
    $refused += count(preg_grep('~^refused~', $answers));
    $failed += (int) $requests - $done - count(preg_grep('~^refused~', $answers));
    $lost += $done + 2 - (int) substr($last, 3);
    $all[] = $seconds;
    array_push($times, ...$each);
}
sort($all);
sort($times);
printf("%-30s %10.0f ms %10.0f ms %10.0f ms %8d %8d %8d\n", $title, 1e3 * $all[intdiv(count($all), 2)],
    1e3 * $times[intdiv(count($times), 2)], 1e3 * $times[(int) (0.99 * (count($times) - 1))], $lost, $refused, $failed);
