local counts = {}
for place, index in ipairs(A) do counts[place] = call('ZCARD', P .. index) end
return counts
