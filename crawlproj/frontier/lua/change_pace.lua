#!lua flags=allow-oom
-- Changes how a host is treated while the crawl runs. Workers see from their heartbeat that
-- something has changed, and read it then; it lasts as long as the crawl.
--
-- ARGV  2 host, as POLITENESS_OVERRIDES names hosts; 3 JSON object of values that are added to
--         those it has, or '' to take them all back
-- Reply changes so far
--include _crawl.lua
local field = 'pace:' .. ARGV[2]
if ARGV[3] == '' then
  redis.call('HDEL', META, field)
else
  local ok, values = pcall(cjson.decode, redis.call('HGET', META, field) or '{}')
  values = ok and type(values) == 'table' and values or {}
  for name, value in pairs(cjson.decode(ARGV[3])) do values[name] = value end
  redis.call('HSET', META, field, cjson.encode(values))
end
return redis.call('HINCRBY', META, 'paces', 1)
