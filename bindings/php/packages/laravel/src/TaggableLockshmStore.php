<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel;

/** The store over one that has tags: Laravel recognises such stores by this method. */
final class TaggableLockshmStore extends LockshmStore
{
    /** A cache of the data with these tags; its locks are those of the data's store. */
    public function tags($names)
    {
        return $this->data->tags(\is_array($names) ? $names : \func_get_args());
    }
}
