module gotemplate-vectors

go 1.26
