<?php
// SPDX-License-Identifier: MIT
// What a current Laravel takes from newer versions of PHP; its dependencies have it, a bare checkout has not.

declare(strict_types=1);

if (!function_exists('array_first')) {
    function array_first(array $array): mixed
    {
        return $array ? $array[array_key_first($array)] : null;
    }
}
if (!function_exists('array_last')) {
    function array_last(array $array): mixed
    {
        return $array ? $array[array_key_last($array)] : null;
    }
}
if (!function_exists('array_any')) {
    function array_any(array $array, callable $test): bool
    {
        foreach ($array as $key => $value) {
            if ($test($value, $key)) {
                return true;
            }
        }

        return false;
    }
}
if (!function_exists('array_all')) {
    function array_all(array $array, callable $test): bool
    {
        return !array_any($array, static fn ($value, $key): bool => !$test($value, $key));
    }
}
