<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Testing;

/** The examples of a README. */
final class Readme
{
    /**
     * The PHP block $number, counted from 0, and the block of text after it: what it prints.
     *
     * @return array{string, string} with the segment "shop" replaced by one of this test
     */
    public static function example(string $file, int $number = 0): array
    {
        preg_match_all('~^```(php|text)\n(.*?)^```$~ms', file_get_contents($file), $blocks, PREG_SET_ORDER);
        $code = array_values(array_filter($blocks, static fn (array $block): bool => 'php' === $block[1]))[$number][2];
        $text = array_values(array_filter($blocks, static fn (array $block): bool => 'text' === $block[1]))[0][2];

        return [strtr($code, ["'shop'" => var_export(Segment::name('readme'), true)]), $text];
    }
}
