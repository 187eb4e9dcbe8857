dnl SPDX-License-Identifier: MIT
PHP_ARG_WITH([lockshm],
  [for lockshm support],
  [AS_HELP_STRING([--with-lockshm[=DIR]], [Keyed, fair, crash-proof locks; DIR is the prefix of liblockshm, else pkg-config finds it])],
  [yes])

if test "$PHP_LOCKSHM" != "no"; then
  PHP_VERSION_NUM=`$PHP_CONFIG --vernum 2>/dev/null || echo 80200`
  if test "$PHP_VERSION_NUM" -lt 80200; then
    AC_MSG_ERROR([lockshm needs PHP 8.2 or newer])
  fi

  if test -n "$LOCKSHM_CFLAGS$LOCKSHM_LIBS"; then
    : given by the caller
  elif test "$PHP_LOCKSHM" != "yes"; then
    LOCKSHM_CFLAGS="-I$PHP_LOCKSHM/include"
    LOCKSHM_LIBS="-L$PHP_LOCKSHM/lib -llockshm"
  else
    AC_PATH_PROG([PKG_CONFIG], [pkg-config], [no])
    AC_MSG_CHECKING([for lockshm by pkg-config])
    if test "$PKG_CONFIG" = no || ! "$PKG_CONFIG" --atleast-version=0.1 lockshm; then
      AC_MSG_ERROR([liblockshm 0.1 not found: set PKG_CONFIG_PATH, or --with-lockshm=PREFIX])
    fi
    LOCKSHM_CFLAGS=`"$PKG_CONFIG" --cflags lockshm`
    LOCKSHM_LIBS=`"$PKG_CONFIG" --libs lockshm`
    AC_MSG_RESULT([`"$PKG_CONFIG" --modversion lockshm`])
  fi

  PHP_EVAL_INCLINE([$LOCKSHM_CFLAGS])
  dnl php-fpm starts as root, so the module looks for the library where the loader looks and nowhere else.  PHP_EVAL_LIBLINE
  dnl adds a run path for each -L, and libtool one for each library that it finds itself.
  LOCKSHM_SHARED_LIBADD=`echo " $LOCKSHM_LIBS" | sed 's/ -l/ -Wl,-l/g'`
  PHP_SUBST([LOCKSHM_SHARED_LIBADD])

  PHP_NEW_EXTENSION([lockshm],
    [lockshm.c acquire.c arguments.c errors.c hold.c locks.c segments.c session.c use.c values.c wait.c],
    [$ext_shared],, [-DZEND_ENABLE_STATIC_TSRMLS_CACHE=1])
  PHP_ADD_EXTENSION_DEP([lockshm], [session])
fi
