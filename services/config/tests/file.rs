//! The file as a whole, from the outside.

use vmcp_config::{File, Format};

#[test]
fn show() {
    let text = std::fs::read_to_string("tests/full.yaml").unwrap();
    let file = File::parse(&text, Format::Yaml);
    println!("{file:#?}");
    if let Err(m) = &file {
        println!("{m}");
    }
    println!("{}", serde_saphyr::to_string(&file.unwrap()).unwrap());
}
