-- Returns the time, and a page of the tombstones with a higher score than the given one.
return { 'ok', text(now()), call('ZRANGEBYSCORE', P .. 'ended', '(' .. A[1], '+inf', 'WITHSCORES', 'LIMIT', 0, A[2]) }
