//! Writes the custom resource definitions of all kinds, one YAML file each.
//!
//! Run it after a change of a kind:
//!
//! ```text
//! cargo run -p vmcp-api --example crdgen -- operator/crds
//! ```

use std::{error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: crdgen FOLDER")?);
    fs::create_dir_all(&folder)?;
    for definition in vmcp_api::definitions() {
        let file = format!("{}.yaml", definition.spec.names.plural);
        fs::write(folder.join(file), vmcp_api::to_yaml(&definition)?)?;
    }
    Ok(())
}
