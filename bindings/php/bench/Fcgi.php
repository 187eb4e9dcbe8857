<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

/** As much of a FastCGI client as the bench of sessions needs: one request for each connection, many at once. */
final class Fcgi
{
    private string $received = '';

    /** @param resource $connection */
    private function __construct(public readonly mixed $connection)
    {
    }

    /** @param array<string, string> $parameters */
    public static function request(string $socket, array $parameters): self
    {
        $connection = stream_socket_client("unix://$socket", $code, $message, 60);
        if (!$connection) {
            throw new RuntimeException("$socket: $message");
        }
        $body = '';
        foreach ($parameters as $name => $value) {
            $body .= self::length($name).self::length($value).$name.$value;
        }
        fwrite($connection, self::record(1, pack('nCx5', 1, 0)).self::record(4, $body).self::record(4, '').self::record(5, ''));
        stream_set_blocking($connection, false);

        return new self($connection);
    }

    /** Reads what has come; true when the answer is complete. */
    public function receive(): bool
    {
        $data = fread($this->connection, 65536);
        $this->received .= $data;

        return '' === $data && feof($this->connection);
    }

    /** Body of the answer, after the headers. */
    public function body(): string
    {
        $output = '';
        for ($at = 0; $at + 8 <= strlen($this->received); $at += 8 + $header['length'] + $header['padding']) {
            $header = unpack('Cversion/Ctype/nid/nlength/Cpadding', $this->received, $at);
            if (6 === $header['type']) {
                $output .= substr($this->received, $at + 8, $header['length']);
            }
        }

        return explode("\r\n\r\n", $output, 2)[1] ?? $output;
    }

    private static function record(int $type, string $content): string
    {
        return pack('CCnnCx', 1, $type, 1, strlen($content), 0).$content;
    }

    private static function length(string $text): string
    {
        return strlen($text) < 128 ? chr(strlen($text)) : pack('N', strlen($text) | 0x80000000);
    }
}
