#!lua
-- Brings hosts or domains into scope. They stay in the order in which they came, so that a worker
-- that has read so many of them reads only the rest.
--
-- ARGV  2 msgpack list of their names
-- Reply how many names an older version has left in a set without order: each call takes in some
--include _crawl.lua
local AT_ONCE = 1000
local names = cmsgpack.unpack(ARGV[2])
for _, name in ipairs(redis.call('SPOP', OLD_SCOPE, AT_ONCE)) do names[#names + 1] = name end
local last = redis.call('ZRANGE', SCOPE, -1, -1, 'WITHSCORES')[2] or 0
for first = 1, #names, AT_ONCE do
  local scored = {}
  for i = first, math.min(first + AT_ONCE - 1, #names) do
    scored[#scored + 1] = last + i
    scored[#scored + 1] = names[i]
  end
  redis.call('ZADD', SCOPE, 'NX', unpack(scored))
end
return redis.call('SCARD', OLD_SCOPE)
