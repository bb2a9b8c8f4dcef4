-- Included after _hosts.lua where URLs come to rest: pages that are done, and sitemaps that were read,
-- until it is time to revisit them. In the ledger they stay what they were, until they are woken.

-- The number of a URL, in 8 bytes; number_of() in resting.py has to come to the same.
local function resting_number(name, entry)
  local digits = redis.sha1hex(what_is_asked(name, entry)):sub(1, 16)
  return (digits:gsub('%x%x', function(pair) return string.char(tonumber(pair, 16)) end))
end

-- One that rests already, because it was asked for twice, rests once: the other visit is over.
local function rest(name, entry, counted_as, delay_ms)
  local number = resting_number(name, entry)
  count('resting', redis.call('HSET', RESTING, number, cmsgpack.pack(name, entry, counted_as)))
  redis.call('ZADD', DUE, NOW + delay_ms, number)
end
