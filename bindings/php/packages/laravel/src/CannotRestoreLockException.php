<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel;

use Lockshm\Holder;
use RuntimeException;

/** restoreLock() where the lock was not taken. */
final class CannotRestoreLockException extends RuntimeException
{
    /** @param list<Holder> $holders of the lock now */
    public static function because(string $name, array $holders): self
    {
        $state = 'No process holds it now.';
        if ($holders) {
            $state = 'cooling' === $holders[0]->state
                ? 'It is what a request has left of its seconds, and has no owner.'
                : "Process {$holders[0]->pid} holds it.";
        }

        $call = 'Cache::lock('.var_export($name, true).')->forceRelease()';

        return new self("Lock '$name' cannot be restored here: it is held by the process that takes it, and this one does not"
            ." hold it. $state Release it where it was taken, end it from here by $call, or keep locks that change"
            .' process (unique jobs: uniqueVia()) in another cache store.');
    }
}
