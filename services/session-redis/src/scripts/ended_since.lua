-- Returns the time, and a page of the tombstones with a higher score than the given one.
local page = call('ZRANGEBYSCORE', P .. 'ended', '(' .. A[1], MAX_SCORE, 'WITHSCORES', 'LIMIT', 0, A[2])
return { 'ok', text(now()), page }
