#!lua flags=allow-oom
-- Changes when resting URLs are due. One that has been woken since is left alone. After a census, also
-- notes what it has found, which all workers go by.
--
-- ARGV  2 msgpack list of number, when it is due (ms), of one URL after the other
--       3 what a census has found, as text, or ''
--       4 fetches a second that this shard has of the crawl's budget by it
-- Reply 1
--include _crawl.lua
local times, scores = cmsgpack.unpack(ARGV[2]), {}
for i = 1, #times, 2 do
  scores[i], scores[i + 1] = times[i + 1], times[i]
end
for first = 1, #scores, PIECE do
  redis.call('ZADD', DUE, 'XX', unpack(scores, first, math.min(first + PIECE - 1, #scores)))
end
if ARGV[3] ~= '' then redis.call('HSET', META, 'census', ARGV[3], 'refresh', ARGV[4]) end
return 1
