/* SPDX-License-Identifier: MIT */
/* scripts.h - the scripts of src/redis/scripts/ as strings; scripts.c is generated */
#ifndef LOCKSHM_REDIS_SCRIPTS_H
#define LOCKSHM_REDIS_SCRIPTS_H

extern const char redis_lua_acquire_s[];
extern const char redis_lua_acquire_x[];
extern const char redis_lua_fence[];
extern const char redis_lua_force_release[];
extern const char redis_lua_hosts[];
extern const char redis_lua_inspect[];
extern const char redis_lua_leave[];
extern const char redis_lua_release[];
extern const char redis_lua_renew[];
extern const char redis_lua_renew_many[];
extern const char redis_lua_rights[];

#endif
