<?php
// SPDX-License-Identifier: MIT
// Agent of ../../conformance: the words of its README by the extension's public calls.

use Lockshm\Locks;

const NAMES = ['max_hold' => 'maxHold', 'redis_policy' => 'redisPolicy', 'retry_on_failure' => 'retryOnFailure'];
const CLASSES = [
    'Lockshm\BusyException' => 'busy', 'Lockshm\TimeoutException' => 'timeout', 'Lockshm\LostException' => 'lost',
    'Lockshm\NotHeldException' => 'not-held', 'Lockshm\DeadlockException' => 'deadlock',
    'Lockshm\FullException' => 'full', 'Lockshm\BridgeException' => 'bridge',
    'Lockshm\SegmentException' => 'permission', 'ValueError' => 'invalid', 'Failed' => 'failed',
];

final class Failed extends Exception
{
}

final class Agent
{
    /** @var resource */
    private $input = STDIN;
    /** @var resource */
    private $output = STDOUT;
    private ?Locks $locks = null;
    private array $holds = [];
    private string $text = '';

    private function say(string $line): void
    {
        fwrite($this->output, $line . "\n");
    }

    private function open(array $words, array $options): string
    {
        $this->locks = Locks::open($words[0], $options);
        return 'ok';
    }

    private function destroy(array $words): string
    {
        Locks::destroy($words[0]);
        return 'ok';
    }

    private function take(array $words, array $options): string
    {
        $robust = $options['robust'] ?? false;
        $call = isset($options['shared']) ? 'shared' : 'exclusive';
        unset($options['shared']);
        $hold = $this->holds[$words[0]] = $this->locks->$call($words[1], ...$options);
        if ($hold->isLocalOnly()) {
            return 'local-only';
        }
        return $robust && $hold->damage() ? $hold->damage()->status : 'ok';
    }

    private function release(array $words, array $options): string
    {
        return $this->holds[$words[0]]->release(...$options) ? 'ok' : 'late';
    }

    private function check(array $words): string
    {
        return $this->holds[$words[0]]->check() ? 'ok' : 'late';
    }

    private function renew(array $words): string
    {
        $seconds = isset($words[1]) ? (float) $words[1] : null;
        return $this->holds[$words[0]]->renew($seconds) ? 'ok' : 'late';
    }

    private function extend(array $words): string
    {
        return $this->holds[$words[0]]->extend((float) $words[1]) ? 'ok' : 'late';
    }

    private function upgrade(array $words): string
    {
        return $this->holds[$words[0]]->upgrade() ? 'ok' : 'late';
    }

    private function downgrade(array $words): string
    {
        return $this->holds[$words[0]]->downgrade() ? 'ok' : 'late';
    }

    private function ack(array $words): string
    {
        $this->holds[$words[0]]->acknowledge();
        return 'ok';
    }

    private function token(array $words): string
    {
        return (string) $this->holds[$words[0]]->token();
    }

    private function damage(array $words): string
    {
        $mark = $this->holds[$words[0]]->damage();
        return $mark ? "$mark->status $mark->pid" : 'none';
    }

    private function defaults(array $words): string
    {
        $list = [];
        foreach ($words[0] === 'refusal' ? CLASSES : [] as $class => $word) {
            $parent = $word === 'busy' ? '<' . (new ReflectionClass($class))->getParentClass()->getShortName() : '';
            $list[] = (new ReflectionClass($class))->getShortName() . "$parent=-";
        }
        $call = ['take' => 'exclusive', 'flight' => 'singleFlight', 'once' => 'once', 'seat' => 'seat'][$words[0]] ?? null;
        foreach ($call ? (new ReflectionMethod(Locks::class, $call))->getParameters() : [] as $parameter) {
            if ($parameter->isOptional()) {
                $value = $parameter->getDefaultValue();
                $list[] = $parameter->getName() . '=' . (is_bool($value) ? ($value ? 'yes' : 'no') : $value ?? 'none');
            }
        }
        return implode(' ', array_diff($list, ['Failed=-']));
    }

    private function message(): string
    {
        return $this->text;
    }

    private function sleep(array $words): string
    {
        usleep((int) ($words[0] * 1e6));
        return 'ok';
    }

    private function fork(array $words): string
    {
        $pid = pcntl_fork();
        if ($pid) {
            return (string) $pid;
        }
        $this->input = fopen($words[0], 'r');
        $this->output = fopen($words[1], 'w');
        return 'agent php';
    }

    /** What a recipe calls: goes on with the lines until "done VALUE" or "fail". */
    private function inside(): ?string
    {
        $this->say('inside');
        return $this->serve();
    }

    private function flight(array $words, array $options): string
    {
        $look = fn() => is_file($words[1]) ? file_get_contents($words[1]) : null;
        $fill = function () use ($words) {
            file_put_contents($words[1], $value = $this->inside());
            return $value;
        };
        return $this->locks->singleFlight($words[0], $look, $fill, ...$options);
    }

    private function once(array $words, array $options): string
    {
        return $this->locks->once($words[0], (float) $words[1], fn() => $this->inside(), ...$options) ? 'ran' : 'skipped';
    }

    private function seat(array $words, array $options): string
    {
        $this->locks->seat($words[0], fn() => $this->inside(), ...$options);
        return 'ended';
    }

    private function act(string $line): string
    {
        preg_match_all("/'([^']*)'|\\S+/", $line, $found, PREG_SET_ORDER);
        $words = $options = [];
        foreach ($found as $word) {
            $word = $word[1] ?? $word[0];
            if (preg_match('/^(\w+)=(.*)$/', $word, $pair)) {
                [, $name, $value] = $pair;
                $number = ['timeout', 'lease', 'max_hold', 'cooldown', 'redis_ttl'];
                $count = ['keys', 'requests', 'owners'];
                $value = $value === 'none' && in_array($name, $number) ? null : $value;
                $value = in_array($name, $number) && $value !== null ? (float) $value : $value;
                $options[NAMES[$name] ?? $name] = in_array($name, $count) ? (int) $value : $value;
            } elseif ($word === 'norenew') {
                $options['renew'] = false;
            } elseif (in_array($word, ['shared', 'robust', 'global', 'retry_on_failure'])) {
                $options[NAMES[$word] ?? $word] = true;
            } else {
                $words[] = $word;
            }
        }
        $verb = array_shift($words);
        return method_exists($this, $verb) ? $this->$verb($words, $options) : 'unknown';
    }

    private function answer(string $line): string
    {
        try {
            return $this->act($line);
        } catch (Throwable $error) {
            $this->text = str_replace("\n", ' ', $error->getMessage());
            if ($error instanceof Lockshm\SegmentException && $error->getCode() === -10) {
                return 'no-segment';
            }
            foreach (CLASSES as $class => $word) {
                if ($error instanceof $class) {
                    return $word;
                }
            }
            return $error::class;
        }
    }

    public function serve(): ?string
    {
        while (($line = fgets($this->input)) !== false) {
            if (str_starts_with($line, 'done')) {
                return trim(substr($line, 4));
            }
            if (str_starts_with($line, 'fail')) {
                throw new Failed();
            }
            $this->say($this->answer($line));
        }
        exit(0);
    }

    public function run(): never
    {
        $this->say('agent php ' . phpversion('lockshm') . ' recipes reopen deadlock texts' .
            (function_exists('pcntl_fork') ? ' fork' : ''));
        $this->serve();
        exit(0);
    }
}

(new Agent())->run();
