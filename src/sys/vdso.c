/* SPDX-License-Identifier: MIT */
/*
 * vdso.c - finding clock_gettime() in the shared object that the kernel maps (vdso(7))
 *
 * The auxiliary vector has its address; it is an ordinary ELF image, of which only the dynamic section is needed.
 * Anything unexpected (another machine, an emulator without the image) gives NULL, and the C library is called.  The
 * image is the kernel's, so it is trusted.
 */
#include "sys/vdso.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#if defined(__x86_64__)
#define CLOCK_NAME "__vdso_clock_gettime"
#elif defined(__aarch64__)
#define CLOCK_NAME "__kernel_clock_gettime"
#endif

#ifdef CLOCK_NAME

struct image {
	uintptr_t bias; /* added to its addresses */
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Word) * hash;
	const uint32_t *gnu_hash;
};

static const ElfW(Dyn) * find_dynamic(struct image *v, const ElfW(Ehdr) * header)
{
	const ElfW(Phdr) *p = (const void *)((const char *)header + header->e_phoff);
	const ElfW(Dyn) *dynamic = NULL;
	bool loaded = false;
	int i;

	for (i = 0; i < header->e_phnum; i++, p++) {
		if (p->p_type == PT_LOAD && !loaded) {
			loaded = true;
			v->bias = (uintptr_t)header + p->p_offset - p->p_vaddr;
		}
		if (p->p_type == PT_DYNAMIC)
			dynamic = (const void *)((const char *)header + p->p_offset);
	}
	return loaded ? dynamic : NULL;
}

static bool open_image(struct image *v, const ElfW(Ehdr) * header)
{
	const ElfW(Dyn) *d = find_dynamic(v, header);

	for (; d && d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)(v->bias + d->d_un.d_ptr);

		if (d->d_tag == DT_SYMTAB)
			v->symbols = at;
		else if (d->d_tag == DT_STRTAB)
			v->strings = at;
		else if (d->d_tag == DT_HASH)
			v->hash = at;
		else if (d->d_tag == DT_GNU_HASH)
			v->gnu_hash = at;
	}
	return v->symbols && v->strings && (v->hash || v->gnu_hash);
}

/* The GNU table has no count: its last chain ends with the last symbol. */
static uint32_t count_symbols(const struct image *v)
{
	uint32_t i, n_buckets, first, last = 0;
	const uint32_t *buckets, *chain;

	if (v->hash)
		return v->hash[1];
	n_buckets = v->gnu_hash[0];
	first = v->gnu_hash[1];
	buckets = v->gnu_hash + 4 + v->gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	chain = buckets + n_buckets;
	for (i = 0; i < n_buckets; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < first)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

vdso_clock_fn *vdso_clock_gettime(void)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct image v = { 0 };
	uint32_t i, n;

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || !open_image(&v, header))
		return NULL;
	n = count_symbols(&v);
	for (i = 0; i < n; i++) {
		const ElfW(Sym) *sym = &v.symbols[i];

		if (sym->st_shndx != SHN_UNDEF && (sym->st_info & 0xf) == STT_FUNC &&
		    strcmp(v.strings + sym->st_name, CLOCK_NAME) == 0)
			return (vdso_clock_fn *)(v.bias + sym->st_value);
	}
	return NULL;
}

#else

vdso_clock_fn *vdso_clock_gettime(void)
{
	return NULL;
}

#endif
