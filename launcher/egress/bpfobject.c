/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/bpfobject.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"

#include "base/banned.h"

#define RELOCATION_64 1 /* R_BPF_64_64 (llvm, BPFELFRelocs): the address of a symbol */

struct object {
	const char *bytes;
	const Elf64_Shdr *sections;
	unsigned n_sections;
	const Elf64_Sym *symbols;
	size_t n_symbols;
	const char *names;
};

static int open_object(const void *bytes, struct object *o)
{
	const Elf64_Ehdr *head = bytes;

	if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_machine != EM_BPF || head->e_shentsize != sizeof(Elf64_Shdr))
		return -ENOEXEC;
	*o = (struct object){.bytes = bytes, .n_sections = head->e_shnum};
	o->sections = (const void *)(o->bytes + head->e_shoff);
	for (unsigned i = 0; i < o->n_sections; i++) {
		const Elf64_Shdr *s = &o->sections[i];

		if (s->sh_type != SHT_SYMTAB || s->sh_link >= o->n_sections)
			continue;
		o->symbols = (const void *)(o->bytes + s->sh_offset);
		o->n_symbols = s->sh_size / sizeof(Elf64_Sym);
		o->names = o->bytes + o->sections[s->sh_link].sh_offset;
	}
	return o->symbols ? 0 : -ENOEXEC;
}

static const Elf64_Sym *find_function(const struct object *o, const char *name)
{
	for (size_t i = 0; i < o->n_symbols; i++)
		if (ELF64_ST_TYPE(o->symbols[i].st_info) == STT_FUNC && str_eq(o->names + o->symbols[i].st_name, name))
			return &o->symbols[i];
	return NULL;
}

/* A wide load of a symbol's address becomes one of a map, or of an address in its value (linux/bpf.h, BPF_PSEUDO_MAP_FD). */
static int resolve(const struct object *o, const Elf64_Rel *rel, const struct bpf_object_map *maps, size_t n_maps,
		   struct bpf_insn *insn)
{
	const Elf64_Sym *symbol = &o->symbols[ELF64_R_SYM(rel->r_info)];

	if (ELF64_R_TYPE(rel->r_info) != RELOCATION_64 || insn[0].code != (BPF_LD | BPF_IMM | BPF_DW))
		return -ENOEXEC;
	for (size_t i = 0; i < n_maps; i++) {
		if (!str_eq(o->names + symbol->st_name, maps[i].symbol))
			continue;
		if (maps[i].value) {
			insn[0].src_reg = BPF_PSEUDO_MAP_VALUE;
			insn[1].imm = insn[0].imm + (int)symbol->st_value;
		} else {
			insn[0].src_reg = BPF_PSEUDO_MAP_FD;
		}
		insn[0].imm = maps[i].fd;
		return 0;
	}
	return -ENOEXEC;
}

int bpf_object_program(const void *object, const char *function, const struct bpf_object_map *maps, size_t n_maps,
		       struct bpf_insn *out, size_t max)
{
	const Elf64_Sym *symbol;
	struct object o;
	size_t n;
	int r = open_object(object, &o);

	if (r < 0)
		return r;
	symbol = find_function(&o, function);
	if (!symbol || symbol->st_shndx >= o.n_sections)
		return -ENOEXEC;
	n = symbol->st_size / sizeof(*out);
	if (n > max)
		return -E2BIG;
	memcpy(out, o.bytes + o.sections[symbol->st_shndx].sh_offset + symbol->st_value, n * sizeof(*out));
	for (unsigned i = 0; i < o.n_sections; i++) {
		const Elf64_Shdr *s = &o.sections[i];
		const Elf64_Rel *rel = (const void *)(o.bytes + s->sh_offset);

		if (s->sh_type != SHT_REL || s->sh_info != symbol->st_shndx)
			continue;
		for (size_t k = 0; r == 0 && k < s->sh_size / sizeof(*rel); k++) {
			size_t at = (rel[k].r_offset - symbol->st_value) / sizeof(*out);

			r = rel[k].r_offset < symbol->st_value || at + 1 >= n ? -ENOEXEC : resolve(&o, &rel[k], maps, n_maps, &out[at]);
		}
	}
	return r < 0 ? r : (int)n;
}
