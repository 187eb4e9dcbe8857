dnl SPDX-License-Identifier: MIT

dnl LOCKSHM_PROBE_FLAGS(VARIABLE, FLAGS) - put those of FLAGS that the compiler knows into VARIABLE and substitute it.
dnl All at once first, since they usually all work; one by one only if not.
AC_DEFUN([LOCKSHM_PROBE_FLAGS], [
	AC_MSG_CHECKING([$1])
	lockshm_flags=`echo m4_normalize([$2])`
	LOCKSHM_TRY_FLAGS([$lockshm_flags], [$1=$lockshm_flags], [
		$1=
		for lockshm_flag in $lockshm_flags; do
			LOCKSHM_TRY_FLAGS([$lockshm_flag], [$1="$$1 $lockshm_flag"])
		done
	])
	AC_MSG_RESULT([$$1])
	AC_SUBST([$1])
])

dnl LOCKSHM_TRY_FLAGS(FLAGS, IF-KNOWN, [IF-NOT]) - clang only warns about a flag it does not know, hence -Werror.
AC_DEFUN([LOCKSHM_TRY_FLAGS], [
	lockshm_save_CFLAGS=$CFLAGS
	CFLAGS="-Werror $1"
	AC_COMPILE_IFELSE([AC_LANG_SOURCE([[int lockshm_probe;]])], [lockshm_known=yes], [lockshm_known=no])
	CFLAGS=$lockshm_save_CFLAGS
	AS_IF([test $lockshm_known = yes], [$2], [$3])
])

dnl LOCKSHM_REQUIRE(NAME, MODULES, PACKAGES, [OPTION]) - what the build cannot do without, unless OPTION leaves out what needs it.
dnl Sets have_name, NAME_CFLAGS and NAME_LIBS.  OPTION is --without-option; PACKAGES are those of distributions.
AC_DEFUN([LOCKSHM_REQUIRE], [
	m4_pushdef([lower], m4_tolower([$1]))
	have_[]lower=no
	AS_IF([test "x$with_$4" != xno],
	      [PKG_CHECK_MODULES([$1], [$2], [have_[]lower=yes], [AS_IF([test -z "$PKG_CONFIG"],
		[AC_MSG_ERROR([pkg-config is not installed; it has to find $2])],
		[AC_MSG_ERROR([pkg-config does not find $2: install $3[]m4_ifval([$4], [, or configure --without-$4])])])])])
	m4_popdef([lower])
])

dnl LOCKSHM_SANITIZER(NAME, ARGUMENT, WHAT) - option --enable-NAME adds ARGUMENT to $sanitizers.
AC_DEFUN([LOCKSHM_SANITIZER], [
	AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [build with -fsanitize=$2: $3])])
	AS_IF([test "x$enable_$1" = xyes], [sanitizers="${sanitizers:+$sanitizers,}$2"])
])

dnl LOCKSHM_PEER(NAME, MODULE | -lLIBRARY, HEADER) - a lock that the benchmark compares with.  Whether a program can be
dnl built with it decides, not whether pkg-config has heard of it: that may be about another machine.  Sets have_name
dnl and adds to BENCH_CPPFLAGS and BENCH_LIBS.  The files that need _GNU_SOURCE define it themselves: twice is a warning.
AC_DEFUN([LOCKSHM_PEER], [
	m4_pushdef([lower], m4_tolower([$1]))
	dnl A library that pkg-config does not know is asked for by its own name: a cross compiler may see this machine's header.
	m4_if(m4_substr([$2], 0, 2), [-l], [peer_cflags= peer_libs=$2],
	      [peer_cflags=`$PKG_CONFIG --cflags $2 2>/dev/null | sed 's/-D_GNU_SOURCE//'`
	       peer_libs=`$PKG_CONFIG --libs $2 2>/dev/null || echo -l$2`])
	AC_MSG_CHECKING([for $3, to benchmark against])
	peer_save_CPPFLAGS=$CPPFLAGS peer_save_LIBS=$LIBS
	CPPFLAGS="$CPPFLAGS $peer_cflags" LIBS="$LIBS $peer_libs"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <$3>]])], [have_[]lower=yes], [have_[]lower=no])
	CPPFLAGS=$peer_save_CPPFLAGS LIBS=$peer_save_LIBS
	AC_MSG_RESULT([$have_[]lower])
	AS_IF([test $have_[]lower = yes],
	      [BENCH_CPPFLAGS="$BENCH_CPPFLAGS $peer_cflags -DHAVE_$1" BENCH_LIBS="$BENCH_LIBS $peer_libs"
	       bench_peers="$bench_peers lower"], [bench_absent="$bench_absent lower"])
	m4_popdef([lower])
])

dnl LOCKSHM_LANGUAGE(NAME, WHAT, SEARCH, FOUND) - option --without-NAME; SEARCH sets variables, and have_NAME is yes if the
dnl words FOUND are not empty after it.
AC_DEFUN([LOCKSHM_LANGUAGE], [
	AC_ARG_WITH([$1], [AS_HELP_STRING([--without-$1], [no tests of bindings/$1 (they need $2)])])
	AS_IF([test "x$with_$1" = xno], [have_$1=no], [
		$3
		AS_IF([test -n "$4"], [have_$1=yes], [have_$1=no])
		AS_IF([test "x$with_$1" = xyes && test $have_$1 = no], [AC_MSG_ERROR([--with-$1 needs $2])])
	])
])

dnl LOCKSHM_DIRECTORY(NAME, DEFAULT) - option --with-NAME-dir=DIR, or --without-NAME-dir; substitutes the variable NAMEdir without
dnl its dashes, and sets the condition WITH_NAME.
AC_DEFUN([LOCKSHM_DIRECTORY], [
	m4_pushdef([option], [with_]m4_translit([$1], [-], [_])[_dir])
	AC_ARG_WITH([$1-dir], [AS_HELP_STRING([--with-$1-dir=DIR], [@<:@$2@:>@])])
	AS_CASE([$option], [yes | ""], [option='$2'])
	AC_SUBST(m4_translit([$1], [-])[dir], [$option])
	AM_CONDITIONAL([WITH_]m4_toupper(m4_translit([$1], [-], [_])), [test "x$option" != xno])
	m4_popdef([option])
])
