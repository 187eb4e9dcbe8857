# SPDX-License-Identifier: MIT
#
# header-to-man.awk - the pages of section 3 from the comments of lockshm.h: one for each function
#
# Usage: awk -v out=DIRECTORY -v examples=DIRECTORY -f header-to-man.awk lockshm.7 lockshm.h
#
# A comment that begins with two stars is one of these, by the code below it:
#   - function: "name - summary", "@argument: text", paragraphs, "Return: text", safety, "Since: version".  In Return,
#     "; LOCKSHM_X (text)" is an entry of a list, and has the text of the code in enum lockshm_code if it has none.
#   - overview: an empty line below it.  Shown with the next function.
#   - type: a declaration, with the macros below it up to an empty line.  Shown with the first function that has it in its
#     prototype, else with the first that has a type with a field of it, else with the first whose comment names it.
#   - constant: any other macro.  Shown on every page that names it.
# A sentence ends with two spaces or the line.  Date and version are those of lockshm.7; the example of a page is
# examples/<name>.c.

FNR == 1 { file++ }
file == 1 { if (/^\.TH /) heading = substr($0, index($0, " 7 ") + 3); next }
{ lines[++count] = $0 }
END {
	read_header()
	for (f = 1; f <= functions; f++) own_types(f, prototype[f])
	for (f = 1; f <= functions; f++) adopt_types(f)
	for (f = 1; f <= functions; f++) own_types(f, said_of[f])
	for (f = 1; f <= functions; f++) write_page(f)
}

# ---------------------------------------------------------------- the header

function read_header(    i, comment, code, type)
{
	for (i = 1; i <= count; i = next_line) {
		next_line = i + 1
		if (lines[i] ~ /^\/\*\*/) {
			comment = read_comment(i)
			if (lines[next_line] == "" && comment !~ /^lockshm\.h - /) overview = overview "\n\n" comment
		} else if (lines[i] ~ /^\/\*/) {
			read_comment(i)
		} else if (lines[i] == "") {
			comment = type = ""
		} else {
			code = read_code(i)
			type = add(code, comment, type)
			comment = ""
		}
	}
}

# The comment from line @i without its stars; next_line is the line below it.
function read_comment(i,    line, text)
{
	do {
		line = lines[i]
		sub(/^\/\*\*? ?/, "", line)
		sub(/ *\*\/$/, "", line)
		sub(/^ \* ?/, "", line)
		text = text line "\n"
	} while (lines[i++] !~ /\*\/$/)
	next_line = i
	gsub(/^\n+|\n+$/, "", text)
	return text
}

# One declaration, or one line of the preprocessor with what continues it.
function read_code(i,    text, bare, more)
{
	do {
		text = text lines[i] "\n"
		bare = without_comments(text)
		more = lines[i] ~ /\\$/ || bare !~ /\n$/
		if (text !~ /^(#|extern|})/)
			more = more || gsub(/{/, "{", bare) != gsub(/}/, "}", bare) || bare !~ /[;}][ \t]*\n$/
	} while (more && i++ < count)
	next_line = i + 1
	return text
}

function without_comments(text,    from, to)
{
	while ((from = index(text, "/*")) > 0) {
		to = index(substr(text, from), "*/")
		text = substr(text, 1, from - 1) (to ? substr(text, from + to + 1) : "")
	}
	return text
}

# Returns the type to which macros in the lines below belong.
function add(code, comment, type,    name)
{
	if (code ~ /^#define/) {
		name = code
		sub(/^#define /, "", name)
		match(name, /^[A-Za-z_]+(\([a-z_, ]*\))?/)
		name = substr(name, 1, RLENGTH)
		if (code ~ /\/\*\*</) comment = trailing_comment(code)
		if (comment == "" || name ~ /_$|_\(/) return type
		if (type) macros[type] = macros[type] entry("B", name, sentence(comment))
		else {
			constant[++constants] = name
			value[name] = short_value(code)
		}
		said[name] = comment
	} else if (code ~ /^#|^extern/) {
		return type
	} else if (code !~ /^(typedef|struct|enum)/ && match(code, /lockshm_[a-z_]+\(/)) {
		function_name[++functions] = substr(code, RSTART, RLENGTH - 1)
		number[function_name[functions]] = functions
		prototype[functions] = code
		sub(/\n?{.*/, ";", prototype[functions])
		said_of[functions] = comment
		overview_of[functions] = overview
		overview = ""
		return ""
	} else {
		type = type ? type : ++types
		declaration[type] = declaration[type] code
		names[type] = names[type] names_of(code)
		type_text[type] = type_text[type] (type_text[type] == "" ? "" : "\n\n") comment
		if (code ~ /^enum lockshm_code/) read_codes(code)
	}
	return type
}

# " (640)" of a constant that is one word.
function short_value(code)
{
	code = without_comments(code)
	return split(code, parts, /[ \t\n]+/) == 4 ? " (" parts[3] ")" : ""
}

# The text of each code.
function read_codes(text)
{
	while (match(text, /LOCKSHM_[A-Z_]+ = /)) {
		text = substr(text, RSTART)
		said[substr(text, 1, index(text, " ") - 1)] = trailing_comment(text)
		text = substr(text, index(text, "\n"))
	}
}

function trailing_comment(text)
{
	text = substr(text, index(text, "/**<") + 4)
	text = substr(text, 1, index(text, "*/") - 1)
	gsub(/^ +| +$/, "", text)
	gsub(/\n[ \t]*\*? */, "\n", text)
	return text
}

# ---------------------------------------------------------------- types

# The names that a declaration defines, each between bars.
function names_of(code,    text)
{
	code = without_comments(code)
	if (match(code, /(struct|enum) lockshm_[a-z_]+ {/)) text = "|" substr(code, RSTART, RLENGTH - 2)
	if (match(code, /lockshm_([a-z_]+_)?t;\n$/)) text = text "|" substr(code, RSTART, RLENGTH - 2)
	if (match(code, /\(\*lockshm_[a-z_]+_fn\)/)) text = text "|" substr(code, RSTART + 2, RLENGTH - 3)
	return text
}

function names_type(text, t,    n, i, name)
{
	n = split(names[t], name, "|")
	for (i = 2; i <= n; i++)
		if ((" " text " ") ~ ("[^a-z_]" name[i] "[^a-z_]")) return 1
	return 0
}

function own_types(f, text,    t)
{
	for (t = 1; t <= types; t++)
		if (!owner[t] && names_type(text, t)) owner[t] = f
}

# The types that the fields of function @f's types have.
function adopt_types(f,    t, u, again)
{
	do {
		again = 0
		for (t = 1; t <= types; t++)
			for (u = 1; owner[t] == f && u <= types; u++)
				if (!owner[u] && names_type(declaration[t], u)) owner[u] = again = f
	} while (again)
}

# ---------------------------------------------------------------- pages

function write_page(f,    file, t, name)
{
	name = function_name[f]
	file = out "/" name ".3"
	raw = prototype[f] said_of[f] overview_of[f]
	self = name
	split_comment(said_of[f])
	page = ".\\\" SPDX-License-Identifier: MIT\n.\\\" Made of lockshm.h by header-to-man.awk.\n.TH " toupper(name) " 3 " heading_of_3() "\n"
	page = page ".SH NAME\n" name " \\- " plain(summary) "\n"
	page = page ".SH SYNOPSIS\n.nf\n.B #include <lockshm.h>\n.PP\n" synopsis(f) ".fi\n"
	page = page ".PP\nLink with the output of\n.IR \"pkg\\-config \\-\\-cflags \\-\\-libs lockshm\" .\n"
	page = page ".SH DESCRIPTION\n" arguments paragraphs(description) paragraphs(overview_of[f])
	for (t = 1; t <= types; t++)
		if (owner[t] == f && names_type(prototype[f], t)) page = page type_section(t)
	for (t = 1; t <= types; t++)
		if (owner[t] == f && !names_type(prototype[f], t)) page = page type_section(t)
	page = page other_types(f) constants_section()
	if (returns != "") page = page ".SH RETURN VALUE\n" return_list(returns)
	page = page ".SH NOTES\n" paragraphs(safety)
	page = page example(name) ".SH SEE ALSO\n" see_also(f)
	print_page(page, file)
}

# Without a paragraph where none begins, in lines of at most 80 characters.
function print_page(text, file,    n, i, line, code)
{
	n = split(text, line, "\n")
	for (i = 1; i < n; i++) {
		if (line[i] ~ /^\.EX/) code = 1
		if (line[i] ~ /^\.EE/) code = 0
		if (line[i] == ".PP" && (line[i - 1] ~ /^\.(SH|SS|PP)/ || line[i + 1] ~ /^\.(SH|SS|TP|PP)/)) continue
		if (code || line[i] ~ /^\./) print line[i] > file
		else print_filled(line[i], file)
	}
	close(file)
}

function print_filled(text, file,    i)
{
	while (length(text) > 80) {
		for (i = 80; i > 1 && substr(text, i, 1) != " "; i--);
		if (i == 1) break
		print guarded(substr(text, 1, i - 1)) > file
		text = substr(text, i + 1)
	}
	print guarded(text) > file
}

function guarded(text)
{
	return (text ~ /^\./ ? "\\&" : "") text
}

function heading_of_3(    text)
{
	text = heading
	sub(/"[^"]*"$/, "\"Library functions\"", text)
	return text
}

# A function's comment into summary, arguments, description, returns and safety.
function split_comment(text,    n, i, line, part, slot)
{
	n = split(text, line, "\n")
	summary = arguments = description = returns = safety = ""
	slot = "summary"
	for (i = 1; i <= n; i++) {
		part = line[i]
		if (part == "" && slot != "description") slot = "description"
		if (part ~ /^@[a-z_]+:/) slot = "argument"
		if (part ~ /^Return:/) slot = "returns"
		else if (slot == "returns" && part ~ /^[^ ]/) slot = "safety"
		if (slot == "summary") summary = append(summary, part)
		else if (slot == "argument") argument_line(part)
		else if (slot == "returns") returns = append(returns, part)
		else if (slot == "safety") safety = append(safety, part)
		else description = description part "\n"
	}
	end_argument()
	sub(/^[a-z_]+ - /, "", summary)
	sub(/^Return: */, "", returns)
	sub(/ *Since: /, "\n\nSince version ", safety)
	safety = safety "."
}

function append(text, line)
{
	sub(/^ +/, "", line)
	return text (text == "" ? "" : text ~ /\.$/ ? "  " : " ") line
}

function argument_line(line)
{
	if (line ~ /^@/) {
		end_argument()
		argument_name = substr(line, 2, index(line, ":") - 2)
		sub(/^@[a-z_]+: */, "", line)
		argument = ""
	}
	argument = append(argument, line)
}

function end_argument()
{
	if (argument != "") arguments = arguments entry("I", argument_name, sentence(argument))
	argument = ""
}

# The prototype in lines of at most 76 characters, names of arguments in italics.
function synopsis(f,    text, n, word, i, line, all)
{
	text = prototype[f]
	gsub(/LOCKSHM_MUST_CHECK ?|static inline /, "", text)
	gsub(/[ \t\n]+/, " ", text)
	sub(/ ?; ?$/, ";", text)
	sub(/^ /, "", text)
	n = split(text, word, ", ")
	for (i = 1; i <= n; i++) {
		if (i < n) word[i] = word[i] ","
		if (line != "" && length(line word[i]) > 75) {
			all = all ".B \"" line "\"\n"
			line = "        "
		} else if (line != "") line = line " "
		line = line word[i]
	}
	return all ".B \"" line "\"\n"
}

function entry(font, name, text)
{
	return ".TP\n." font " \"" plain(name) "\"\n" roff(text)
}

# A first letter in capitals and a full stop.
function sentence(text)
{
	if (text !~ /[.:]$/) text = text "."
	if (text ~ /^[a-z]+[ ,;:.]/ && text !~ /^(lockshm|struct|enum|errno)/) text = toupper(substr(text, 1, 1)) substr(text, 2)
	return text
}

# Paragraphs, and code that is indented.
function paragraphs(text,    n, i, line, all, part, code)
{
	n = split(text, line, "\n")
	for (i = 1; i <= n + 1; i++) {
		if (code && line[i] !~ /^(    |\t)/) {
			all = all ".EE\n"
			code = 0
		}
		if (line[i] ~ /^(    |\t)/ && part == "") {
			if (!code) all = all ".PP\n.EX\n"
			all = all plain(line[i]) "\n"
			code = 1
		} else if (line[i] == "") {
			if (part != "") all = all ".PP\n" roff(part)
			part = ""
		} else part = append(part, line[i])
	}
	return all
}

function type_section(t,    text)
{
	raw = raw declaration[t] type_text[t]
	text = ".SS " title_of(t) "\n" paragraphs(type_text[t])
	if (declaration[t] !~ /opaque|typedef struct [a-z_]+ [a-z_]+;/)
		text = text ".PP\n.EX\n" plain(bare_code(declaration[t])) ".EE\n"
	return text fields(declaration[t]) macros[t]
}

function title_of(t,    n, name)
{
	n = split(names[t], name, "|")
	return declaration[t] ~ /^typedef struct/ ? name[n] : name[2]
}

function bare_code(text)
{
	text = without_comments(text)
	gsub(/[ \t]+\n/, "\n", text)
	gsub(/\n\n+/, "\n", text)
	gsub(/\t/, "    ", text)
	return text
}

# The commented fields, or constants, of a declaration.
function fields(text,    from, field, all)
{
	while ((from = index(text, "/**<")) > 0) {
		field = substr(text, 1, from - 1)
		sub(/[ \t]+$/, "", field)
		sub(/.*\n/, "", field)
		all = all entry(field ~ /LOCKSHM_[A-Z_]*( =.*)?,?$/ ? "B" : "I", field_name(field), sentence(trailing_comment(substr(text, from))))
		text = substr(text, from + 4)
		text = substr(text, index(text, "*/") + 2)
	}
	return all
}

function field_name(text)
{
	gsub(/\[[^]]*\]|;|,$|^[ \t]+/, "", text)
	if (text ~ /=/) sub(/ *=.*/, "", text)
	else if (text !~ /,/) sub(/.*[ *]/, "", text)
	else sub(/^[a-z0-9_]+ /, "", text)
	return text
}

function constants_section(    c, text)
{
	for (c = 1; c <= constants; c++)
		if (raw ~ (word_of(constant[c]) "([^A-Z_]|$)"))
			text = text entry("B", constant[c] value[constant[c]], sentence(said[constant[c]]))
	return text == "" ? "" : ".SS Constants\n" text
}

function word_of(name)
{
	sub(/\(.*/, "\\(", name)
	return "(^|[^A-Z_])" name
}

# Where the types of the prototype are that another page shows.
function other_types(f,    t, text)
{
	for (t = 1; t <= types; t++)
		if (owner[t] != f && declaration[t] !~ /opaque|typedef struct [a-z_]+ [a-z_]+;/ && names_type(prototype[f], t))
			text = text "For " title_of(t) " see " function_name[owner[t]] "().  "
	return text == "" ? "" : ".PP\n" roff(text)
}

# "0; LOCKSHM_X (text); ...", with a text between entries as a paragraph.
function return_list(text,    head, all)
{
	while (text != "") {
		head = next_part(text)
		text = substr(text, length(head) + 1)
		sub(/^(;|\.)? */, "", text)
		all = all return_entry(head)
	}
	return all
}

# Up to the next "; " or full stop, outside parentheses, that a code or number follows.
function next_part(text,    i, c, level)
{
	for (i = 1; i <= length(text); i++) {
		c = substr(text, i, 1)
		if (c == "(") level++
		if (c == ")") level--
		if (!level && substr(text, i) ~ /^(;|\.) +(LOCKSHM_[A-Z_]+|[01])([ (;.,]|$)/) return substr(text, 1, i - 1)
	}
	return text
}

function return_entry(text,    code, tail, end)
{
	sub(/\.$/, "", text)
	if (!match(text, /^(LOCKSHM_[A-Z_]+|[01])/)) return ".PP\n" roff(sentence(text))
	code = substr(text, 1, RLENGTH)
	text = substr(text, RLENGTH + 1)
	if (text ~ /^;/) tail = text
	sub(tail == "" ? "^[ ,:]+" : ".*", "", text)
	if (text == "") text = code ~ /^L/ ? said[code] : said["LOCKSHM_OK"]
	end = closing(text)
	if (end) {
		tail = substr(text, end + 1)
		text = substr(text, 2, end - 2)
	}
	sub(/^[ .,;]+/, "", tail)
	return entry("B", code, sentence(text)) (tail == "" ? "" : ".PP\n" roff(sentence(tail)))
}

# Where the parenthesis ends with which @text begins, or 0.
function closing(text,    i, c, level)
{
	if (text !~ /^\(/) return 0
	for (i = 1; i <= length(text); i++) {
		c = substr(text, i, 1)
		if (c == "(") level++
		if (c == ")" && !--level) return i
	}
	return 0
}

function example(name,    file, line, text)
{
	file = examples "/" name ".c"
	while ((getline line < file) > 0)
		if (line !~ /SPDX/) text = text plain(line) "\n"
	close(file)
	gsub(/\t/, "    ", text)
	return text == "" ? "" : ".SH EXAMPLES\n.EX\n" text ".EE\n"
}

function see_also(f,    g, text)
{
	for (g = 1; g <= functions; g++)
		if (g != f && raw ~ (function_name[g] "[^a-z_]")) text = text ".BR " function_name[g] " (3),\n"
	return text ".BR lockshm (7)\n"
}

# ---------------------------------------------------------------- roff

function plain(text)
{
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	gsub(/"/, "\\(dq", text)
	gsub(/'/, "\\(aq", text)
	return text
}

# One paragraph: names in fonts, each sentence on a line of its own.
function roff(text,    all, token)
{
	gsub(/[ \n]*$/, "", text)
	gsub(/\.\n */, ".  ", text)
	gsub(/\n */, " ", text)
	while (match(text, /@[a-z_]+|lockshm_[a-z_]+\(\)|LOCKSHM_[A-Z_]*[A-Z]|[a-z][a-z_-]*\([1-8]\)|[a-z]+_[a-z_]+/)) {
		token = substr(text, RSTART, RLENGTH)
		all = all plain(substr(text, 1, RSTART - 1)) in_font(token)
		text = substr(text, RSTART + RLENGTH)
	}
	all = all plain(text)
	gsub(/  +/, "\n", all)
	return all "\n"
}

# No name is hyphenated.
function in_font(token,    name)
{
	name = token
	sub(/^@|\(.*/, "", name)
	if (token ~ /^@/) return "\\fI\\%" name "\\fR"
	if (token ~ /\(\)$/) return "\\fB\\%" name "\\fR" (name != self && name in number ? "(3)" : "()")
	if (token ~ /\(/) return "\\fB\\%" plain(name) "\\fR" substr(token, length(token) - 2)
	return token ~ /^L/ ? "\\fB\\%" name "\\fR" : "\\%" name
}
