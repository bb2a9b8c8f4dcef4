#!lua
-- Releases a URL pattern for good, and hands out the URLs of it that were set aside, some a call.
-- The caller pushes them and says so with the next call. That forgets them, and takes them out of
-- the ledger once, since the push has counted them again.
--
-- ARGV  2 host, 3 pattern
--       4 URLs that the caller has pushed, 5 how many of those were new
--       6 URLs to hand out at most
-- Reply {1 if the pattern is known, msgpack list of {kind, level, entry, key}, or {} for one that
--       cannot be read}
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _patterns.lua
local field = ARGV[2] .. ' ' .. ARGV[3]
local why, since, released, urls = read_pattern(field)
if not why then return {0, cmsgpack.pack({})} end
if released == 0 then
  save_pattern(field, why, since, NOW, urls)
  redis.call('HINCRBY', META, 'patterns', 1)
end
redis.call('LTRIM', SET_ASIDE .. field, tonumber(ARGV[4]), -1)
count('filtered:pattern', -tonumber(ARGV[5]))
count('discovered', -tonumber(ARGV[5]))
save_counts()
local kept = {}
for i, packed in ipairs(redis.call('LRANGE', SET_ASIDE .. field, 0, tonumber(ARGV[6]) - 1)) do
  local ok, record = pcall(cmsgpack.unpack, packed)
  kept[i] = ok and record or {}
end
return {1, cmsgpack.pack(kept)}
